// Rows of losses.
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <algorithm>
#include <cmath>

namespace test {

namespace {

namespace ref = test::reference;
using seppo::Reduction;

const std::vector<Reduction> kReductions{Reduction::mean, Reduction::sum, Reduction::none};

std::string torch_of(Reduction reduction) {
  const char* const names[] = {"'mean'", "'sum'", "'none'"};
  return std::string(", reduction=") + names[static_cast<int>(reduction)];
}

// Reduces the losses of rows or elements; the mean divides by `count`, and is 0 of nothing.
template <class T>
Nd<T> reduced(const Nd<T>& losses, Reduction reduction, double count) {
  if (reduction == Reduction::none) return losses;
  Nd<T> y{std::vector<int>{}};
  if (reduction == Reduction::mean && count == 0) return y;
  for (const T& loss : losses.v) y.v[0] += reduction == Reduction::mean ? loss / count : loss;
  return y;
}
template <class T>
Nd<T> reduced(const Nd<T>& losses, Reduction reduction) {
  return reduced(losses, reduction, static_cast<double>(losses.v.size()));
}

// ---- of classes: along an axis of the logits, with or without weights, which are an input that gets no gradient

struct Classes {
  Shape x;
  int axis;
  bool has_axis, is_weighted = false;
  Shape weight = {};
  int without = -1;  // the class whose weight is 0, if there is one
  Reduction reduction = Reduction::mean;

  int count() const { return has_axis ? x[axis] : 1; }
  std::vector<int> rows() const;  // the other axes
  bool fit() const { return has_axis && count() > 0 && (!is_weighted || weight == Shape{count()}); }
  Tensor weights(Inputs in) const;
  template <class T>
  double weight_of(const Arrays<T>& in, std::size_t j) const {
    if (!is_weighted) return 1;
    return static_cast<int>(j) == without ? 0 : real_part(in.back().v[j]) * real_part(in.back().v[j]) + 0.5;
  }
  std::string torch(std::size_t input) const;
  std::string options() const;
};

std::vector<int> Classes::rows() const {
  std::vector<int> sizes = sizes_of(x);
  if (has_axis) sizes.erase(sizes.begin() + from_start(x, axis));
  return sizes;
}

Tensor Classes::weights(Inputs in) const {
  if (!is_weighted) return {};
  const Tensor all = seppo::square(in.back()) + 0.5;
  std::vector<real> kept(all.numel(), 1);
  if (without >= 0 && !kept.empty()) kept[static_cast<std::size_t>(without)] = 0;
  return all * seppo::tensor(all.shape(), kept);
}

// With the classes where PyTorch has them: on axis 1, or of a vector on the only axis.
std::string Classes::torch(std::size_t input) const {
  const std::string tensor = "x[" + std::to_string(input) + "]";
  return x.rank() < 2 ? tensor : tensor + ".movedim(" + std::to_string(axis) + ", 1)";
}

std::string Classes::options() const {
  return torch_of(reduction) + (is_weighted
                                    ? ", weight=(x[-1].detach() ** 2 + 0.5) * (torch.arange(x[-1].numel()) != " +
                                          std::to_string(without) + ")"
                                    : "");
}

Classes classes(Draw& d) {
  Classes c{.x = d.input({{6, 4}, {2, 3, 4}, {4}, {2, 4, 3}}), .axis = 0, .has_axis = false};
  c.axis = d.axis(c.x.rank());
  c.has_axis = has_axis(c.x, c.axis);
  c.reduction = d.one_of(kReductions);
  return c;
}

// After the other inputs.
void draw_weight(Draw& d, Classes& c) {
  c.is_weighted = d.flag();
  if (c.is_weighted) c.weight = d.input_like({c.count()});
  if (c.is_weighted && c.count() > 1 && d.flag()) c.without = 0;
}

// x with its classes last.
template <class T>
Nd<T> classes_last(const Nd<T>& x, const Classes& c) {
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  for (int a = 0, next = 0; a < x.rank(); ++a)
    if (a != from_start(c.x, c.axis)) order[static_cast<std::size_t>(next++)] = a;
  order.back() = from_start(c.x, c.axis);
  return ref::permute(x, order);
}

// -sum_j w_j p(row, j) log softmax(x)_j for each row; x itself is log p unless it is logits. What has no part in the
// sum may be infinite.
template <class T, class P>
Nd<T> row_losses(const Arrays<T>& in, const Classes& c, bool is_logits, const P& p) {
  const Nd<T> x = classes_last(in[0], c);
  Nd<T> y(c.rows());
  const auto n = static_cast<std::size_t>(c.count());
  for (std::size_t i = 0; i < y.v.size(); ++i) {
    double top = -1e300;
    for (std::size_t j = 0; j < n; ++j) top = std::max(top, real_part(x.v[i * n + j]));
    T total = 0;
    for (std::size_t j = 0; j < n; ++j) total += std::exp(x.v[i * n + j] - top);
    for (std::size_t j = 0; j < n; ++j) {
      const T log_p = is_logits ? x.v[i * n + j] - top - std::log(total) : x.v[i * n + j];
      y.v[i] -= c.weight_of(in, j) * p(i, j) * log_p;
    }
  }
  return y;
}

// One target for each row. A target equal to `ignored` does not count.
struct Targets {
  std::vector<int> list;
  int ignored;

  bool are_ignored(std::size_t row) const { return list[row] == ignored; }
  bool fit(int count) const {
    return std::ranges::all_of(list, [&](int t) { return t == ignored || (0 <= t && t < count); });
  }
  std::string torch(const std::vector<int>& shape) const {
    return "torch.tensor(" + text(list) + ", dtype=torch.long).reshape(" + text(shape) + ")";
  }
};

Targets targets(Draw& d, const Classes& c) {
  const std::size_t rows = Nd<double>::count(c.rows());
  return {d.indices(rows, 0, c.count() - 1), d.flag() ? c.count() - 1 : -100};
}

// The sum of the weights of the rows that count.
template <class T>
double counted(const Arrays<T>& in, const Classes& c, const Targets& t) {
  double count = 0;
  for (std::size_t row = 0; row < t.list.size(); ++row)
    if (!t.are_ignored(row)) count += c.weight_of(in, static_cast<std::size_t>(t.list[row]));
  return count;
}

bool is_share(double x) { return x >= 0 && x <= 1; }
double summands(std::span<const double> most) { return 1 + 100 * most[0]; }

OpCase cross_entropy(Draw& d) {
  Classes c = classes(d);
  const Targets t = targets(d, c);
  const double smoothing = d.number({0, 0.3, 1});
  draw_weight(d, c);
  const auto p = [=](std::size_t row, std::size_t j) {
    if (t.are_ignored(row)) return 0.0;
    return (static_cast<int>(j) == t.list[row] ? 1 - smoothing : 0) + smoothing / c.count();
  };
  return {
      .op =
          [=](Inputs in) {
            const seppo::CrossEntropyOptions options{smoothing, t.ignored, c.reduction, c.weights(in), c.axis};
            return seppo::cross_entropy(in[0], t.list, options);
          },
      .reference = [=](const auto& in) { return reduced(row_losses(in, c, true, p), c.reduction, counted(in, c, t)); },
      .fits = c.fit() && t.fit(c.count()) && is_share(smoothing),
      .torch = "F.cross_entropy(" + c.torch(0) + ", " + t.torch(c.rows()) + c.options() +
               ", ignore_index=" + std::to_string(t.ignored) + ", label_smoothing=" + text(smoothing) + ")",
      .options = {.constants = c.is_weighted ? 1u : 0u},
      .terms = summands};
}

OpCase nll_loss(Draw& d) {
  Classes c = classes(d);
  const Targets t = targets(d, c);
  draw_weight(d, c);
  const auto p = [=](std::size_t row, std::size_t j) {
    return !t.are_ignored(row) && static_cast<int>(j) == t.list[row] ? 1.0 : 0.0;
  };
  return {
      .op =
          [=](Inputs in) {
            return seppo::nll_loss(in[0], t.list, {t.ignored, c.reduction, c.weights(in), c.axis});
          },
      .reference = [=](const auto& in) { return reduced(row_losses(in, c, false, p), c.reduction, counted(in, c, t)); },
      .fits = c.fit() && t.fit(c.count()),
      .torch = "F.nll_loss(" + c.torch(0) + ", " + t.torch(c.rows()) + c.options() +
               ", ignore_index=" + std::to_string(t.ignored) + ")",
      .options = {.constants = c.is_weighted ? 1u : 0u},
      .terms = summands};
}

OpCase cross_entropy_of_probabilities(Draw& d) {
  Classes c = classes(d);
  const Shape given = d.input_like(c.x);
  const double smoothing = d.number({0, 0.3});
  draw_weight(d, c);
  const std::string torch =
      "F.cross_entropy(" + c.torch(0) + ", " + c.torch(1) + c.options() + ", label_smoothing=" + text(smoothing) + ")";
  return {.op =
              [=](Inputs in) {
                return seppo::cross_entropy(
                    in[0], in[1],
                    {.label_smoothing = smoothing, .reduction = c.reduction, .weight = c.weights(in), .axis = c.axis});
              },
          .reference =
              [=](const auto& in) {
                const auto shares = classes_last(in[1], c);
                const auto n = static_cast<std::size_t>(c.count());
                const auto p = [&](std::size_t row, std::size_t j) {
                  return (1 - smoothing) * shares.v[row * n + j] + smoothing / c.count();
                };
                return reduced(row_losses(in, c, true, p), c.reduction);
              },
          .fits = c.fit() && given == c.x && is_share(smoothing) &&
                  (c.reduction != Reduction::mean || Nd<double>::count(c.rows()) > 0),
          .torch = c.x.rank() == 1 ? "" : torch,
          .options = {.aliased = false, .constants = c.is_weighted ? 1u : 0u},
          .terms = [](std::span<const double> most) { return summands(most) * most[1]; }};
}

// ---- of a linear layer's scores

// x W^T
template <class T>
Nd<T> scores_of(const Nd<T>& x, const Nd<T>& weight) {
  Nd<T> rows = x;
  rows.shape = {static_cast<int>(Nd<T>::count(x.shape)) / x.size(-1), x.size(-1)};
  Nd<T> y = ref::matmul(rows, ref::permute(weight, {1, 0}));
  y.shape = x.shape;
  y.shape.back() = weight.size(0);
  return y;
}

// The scores, and then their losses, summed; in pieces of all rows, or of so few that the last one is smaller.
OpCase linear_cross_entropy(Draw& d) {
  const Shape x = d.input({{5, 4}, {2, 3, 4}, {4}, {0, 3}}), weight = d.input_like({d.one_of<int>({7, 1}), x.cols()});
  const bool has_axes = x.rank() > 0 && weight.rank() == 2;
  const Classes c{.x = has_axes ? x.with(-1, weight[0]) : Shape{1}, .axis = -1, .has_axis = true};
  const Targets t = targets(d, c);
  const int rows_at_once = d.one_of<int>({0, 1, 4});
  const auto p = [=](std::size_t row, std::size_t j) {
    return !t.are_ignored(row) && static_cast<int>(j) == t.list[row] ? 1.0 : 0.0;
  };
  return {.op =
              [=](Inputs in) {
                return seppo::linear_cross_entropy(in[0], in[1], t.list,
                                                   {.ignore_index = t.ignored, .rows_at_once = rows_at_once});
              },
          .reference =
              [=](const auto& in) {
                auto scores = in;
                scores.assign(1, scores_of(in[0], in[1]));
                return reduced(row_losses(scores, c, true, p), Reduction::sum);
              },
          .fits = has_axes && weight[1] == x[-1] && c.count() > 0 && t.fit(c.count()),
          .torch = "F.cross_entropy(F.linear(x[0], x[1]).reshape(-1, " + std::to_string(c.count()) + "), " +
                   t.torch({static_cast<int>(t.list.size())}) +
                   ", reduction='sum', ignore_index=" + std::to_string(t.ignored) + ")",
          .terms = [=](std::span<const double> most) { return 1 + 100 * most[0] * most[1]; }};
}

// ---- of elements

const std::vector<Shape> kElements{{}, {5}, {2, 3}, {2, 1, 30}};

// Of nothing there is no mean.
bool has_elements(const Shape& x, Reduction reduction) { return reduction != Reduction::mean || x.numel() > 0; }

OpCase mse_loss(Draw& d) {
  const Shape x = d.input(kElements), target = d.input_like(x);
  const Reduction reduction = d.one_of(kReductions);
  return {.op = [=](Inputs in) { return seppo::mse_loss(in[0], in[1], reduction); },
          .reference =
              [=](const auto& in) {
                return reduced(ref::zip(in[0], in[1], [](auto a, auto b) { return (a - b) * (a - b); }), reduction);
              },
          .fits = x == target && has_elements(x, reduction),
          .torch = "F.mse_loss(x[0], x[1]" + torch_of(reduction) + ")",
          .terms = [](std::span<const double> most) { return (most[0] + most[1]) * (most[0] + most[1]); }};
}

OpCase huber_loss(Draw& d) {
  const Shape x = d.input(kElements), target = d.input_like(x);
  const double delta = d.number({1, 0.4});
  const Reduction reduction = d.one_of(kReductions);
  const auto loss = [=](auto a, auto b) {
    const auto difference = real_part(a) < real_part(b) ? b - a : a - b;
    if (real_part(difference) < delta) return 0.5 * difference * difference;
    return delta * (difference - 0.5 * delta);
  };
  return {.op = [=](Inputs in) { return seppo::huber_loss(in[0], in[1], delta, reduction); },
          .reference = [=](const auto& in) { return reduced(ref::zip(in[0], in[1], loss), reduction); },
          .fits = x == target && delta > 0 && has_elements(x, reduction),
          .torch = "F.huber_loss(x[0], x[1], delta=" + text(delta) + torch_of(reduction) + ")"};
}

// log(1 + e^x), which is -log(1 - sigmoid(x))
template <class T>
T softplus(const T& x) {
  return real_part(x) > 0 ? x + std::log(1.0 + std::exp(-x)) : std::log(1.0 + std::exp(x));
}

// Weights of the columns, and of what is said about positive ones; they are no inputs.
OpCase binary_cross_entropy(Draw& d) {
  const Shape shape = d.input(kElements), target = d.input_like(shape);
  const Reduction reduction = d.one_of(kReductions);
  const bool is_weighted = d.flag(), has_pos_weight = d.flag();
  std::vector<double> weight(static_cast<std::size_t>(shape.cols()), 1), pos_weight = weight;
  for (std::size_t j = 0; j < weight.size(); ++j) {
    if (is_weighted) weight[j] = 0.5 + 0.25 * static_cast<double>(j);
    if (has_pos_weight) pos_weight[j] = 2 + 0.5 * static_cast<double>(j);
  }
  const auto losses = [=](auto in) {
    auto y = in[0];
    for (std::size_t i = 0; i < y.v.size(); ++i) {
      const std::size_t j = i % weight.size();
      const auto x = in[0].v[i], t = in[1].v[i];
      y.v[i] = weight[j] * (pos_weight[j] * t * softplus(-x) + (1.0 - t) * softplus(x));
    }
    return y;
  };
  const Shape columns = shape.rank() == 0 ? shape : Shape{shape.cols()};
  const std::string ones = "torch.arange(x[0].shape[-1], dtype=torch.float64)";
  const std::string options =
      (is_weighted ? ", weight=0.5 + 0.25 * " + ones : "") + (has_pos_weight ? ", pos_weight=2 + 0.5 * " + ones : "");
  return {.op =
              [=](Inputs in) {
                seppo::BinaryCrossEntropyOptions o{.reduction = reduction};
                if (is_weighted) o.weight = seppo::tensor(columns, reals(weight));
                if (has_pos_weight) o.pos_weight = seppo::tensor(columns, reals(pos_weight));
                return seppo::binary_cross_entropy_with_logits(in[0], in[1], o);
              },
          .reference = [=](const auto& in) { return reduced(losses(in), reduction); },
          .fits = shape == target && has_elements(shape, reduction),
          .torch = shape.rank() == 0
                       ? ""
                       : "F.binary_cross_entropy_with_logits(x[0], x[1]" + torch_of(reduction) + options + ")"};
}

OpCase cosine_similarity(Draw& d) {
  const Shape a = d.input({{4}, {3, 4}, {2, 3, 4}}), b = d.input_like(a);
  const int axis = d.axis(std::max(a.rank(), b.rank()));
  const double eps = d.number({1e-8});
  const auto product = [](auto x, auto y) { return x * y; };
  const auto first = [](auto x, auto) { return x; };
  const auto sum = [=](const auto& x) {
    const int normal = axis < 0 ? axis + x.rank() : axis;
    return ref::reduce(x, {normal}, false, [](const auto& row) {
      typename std::decay_t<decltype(row)>::value_type total = 0;
      for (const auto& e : row) total += e;
      return total;
    });
  };
  const auto norm = [=](const auto& squares) {
    return ref::map(sum(squares), [=](auto e) { return real_part(e) <= eps * eps ? decltype(e)(eps) : std::sqrt(e); });
  };
  const bool is_axis = -std::max(a.rank(), b.rank()) <= axis && axis < std::max(a.rank(), b.rank());
  return {.op = [=](Inputs in) { return seppo::cosine_similarity(in[0], in[1], axis, eps); },
          .reference =
              [=](const auto& in) {
                const auto x = ref::zip(in[0], in[1], first), y = ref::zip(in[1], in[0], first);
                const auto x_norm = norm(ref::zip(x, x, product)), y_norm = norm(ref::zip(y, y, product));
                return ref::zip(sum(ref::zip(x, y, product)), ref::zip(x_norm, y_norm, product),
                                [](auto dot, auto norms) { return dot / norms; });
              },
          .fits = broadcast(a, b) && is_axis && eps > 0,
          .torch = "F.cosine_similarity(x[0], x[1], " + std::to_string(axis) + ")"};
}

}  // namespace

std::vector<OpRow> loss_rows() {
  const Shape wide{70, 1000}, tall{3000, 20};
  return {{"cross_entropy", cross_entropy, {tall, {20}}, Range::finite},
          {"linear_cross_entropy", linear_cross_entropy, {{70, 90}, {300, 90}}},
          {"nll_loss", nll_loss, {tall, {20}}, Range::finite},
          {"cross_entropy of probabilities", cross_entropy_of_probabilities, {tall, tall, {20}}},
          {"mse_loss", mse_loss, {wide, wide}, Range::finite},
          {"huber_loss", huber_loss, {wide, wide}},
          {"binary_cross_entropy_with_logits", binary_cross_entropy, {wide, wide}},
          {"cosine_similarity", cosine_similarity, {wide, wide}}};
}

}  // namespace test
