// Rows of softmax and normalisations.
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace test {

namespace {

namespace ref = test::reference;

const Shape kWide{70, 1000};
const std::vector<Shape> kShapes{{1}, {5}, {3, 4}, {1, 1}, {2, 3, 17}, {2, 3, 4, 5}, {0, 4}, {9, 33}};

OpCase softmax(Draw& d) {
  const Shape x = d.input(kShapes);
  const int axis = d.axis(x.rank());
  return {.op = [=](Inputs in) { return seppo::softmax(in[0], axis); },
          .reference = [=](const auto& in) { return ref::along(in[0], axis, [](auto& row) { ref::softmax(row); }); },
          .fits = has_axis(x, axis),
          .torch = "torch.softmax(x[0], " + std::to_string(axis) + ")",
          .terms = [](std::span<const double>) { return 1e-3; }};
}

template <class T>
void log_softmax_row(std::vector<T>& row) {
  double top = -1e300;
  for (const T& e : row) top = std::max(top, real_part(e));
  T total = 0;
  for (const T& e : row) total += std::exp(e - top);
  for (T& e : row) e = e - top - std::log(total);
}

OpCase log_softmax(Draw& d) {
  const Shape x = d.input(kShapes);
  const int axis = d.axis(x.rank());
  return {.op = [=](Inputs in) { return seppo::log_softmax(in[0], axis); },
          .reference = [=](const auto& in) { return ref::along(in[0], axis, [](auto& row) { log_softmax_row(row); }); },
          .fits = has_axis(x, axis),
          .torch = "torch.log_softmax(x[0], " + std::to_string(axis) + ")",
          .terms = [](std::span<const double>) { return 1e-3; }};
}

// A mask that owns its lists.
struct OwnMask {
  bool is_causal = false;
  std::vector<int> lengths = {};
  std::vector<std::uint8_t> pairs = {};

  seppo::Mask mask() const { return {.is_causal = is_causal, .lengths = lengths, .pairs = pairs}; }
  bool allows(int sequence, int query, int key, int queries, int keys) const {
    if (is_causal && key > query + keys - queries) return false;
    if (!lengths.empty() && key >= lengths[static_cast<std::size_t>(sequence)]) return false;
    return pairs.empty() || pairs[static_cast<std::size_t>((sequence * queries + query) * keys + key)] != 0;
  }
};

// Two of the kinds have more queries than keys, so that under a causal mask the first queries see nothing.
OpCase masked_softmax(Draw& d) {
  const Shape x = d.input({{2, 3, 4}, {2, 5, 3}, {3, 3}, {1, 2, 4, 2}});
  const bool is_matrix = x.rank() >= 2;
  const int queries = is_matrix ? x[-2] : 1, keys = is_matrix ? x[-1] : 1;
  const std::int64_t sequences = queries == 0 || keys == 0 ? 0 : x.numel() / queries / keys;
  OwnMask own{.is_causal = d.flag()};
  const bool has_lengths = d.flag(), has_pairs = !own.is_causal && !has_lengths && d.flag();
  if (has_lengths) own.lengths = d.indices(static_cast<std::size_t>(sequences), 0, keys);
  if (has_pairs)
    for (const int pair : d.indices(static_cast<std::size_t>(x.numel()), 0, 1)) own.pairs.push_back(pair == 0 ? 0 : 1);
  const auto masked = [=](auto x_of) {
    int row = 0;
    return ref::along(x_of, -1, [&](auto& values) {
      const int sequence = row / queries, query = row % queries;
      ref::softmax_allowed(
          values, [&](std::size_t key) { return own.allows(sequence, query, static_cast<int>(key), queries, keys); });
      ++row;
    });
  };
  const bool lengths_fit = std::ranges::all_of(own.lengths, [=](int n) { return 0 <= n && n <= keys; });
  return {.op = [=](Inputs in) { return seppo::softmax(in[0], own.mask()); },
          .reference = [=](const auto& in) { return masked(in[0]); },
          .fits = is_matrix && lengths_fit,
          .terms = [](std::span<const double>) { return 1e-3; }};
}

const std::vector<Shape> kRows{{4}, {3, 5}, {2, 3, 4}, {2, 1, 3, 17}, {0, 4}, {4, 40}, {3, 1}};

// In a row of one element nothing but rounding errors times 1 / sqrt(eps) is left.
double epsilon(Draw& d, const Shape& x) { return x.cols() == 1 ? 1 : d.number({1e-5, 0.1}); }

// Whether these are vectors of the size of x's last axis, of which there must be at least one element.
bool have_width(const Shape& x, std::initializer_list<Shape> vectors) {
  return x.rank() > 0 && x[-1] > 0 && std::ranges::all_of(vectors, [&](const Shape& v) { return v == Shape{x[-1]}; });
}

OpCase layer_norm(Draw& d) {
  const Shape x = d.input(kRows), gain = d.input_like({x.cols()}), bias = d.input_like({x.cols()});
  const double eps = epsilon(d, x);
  return {.op = [=](Inputs in) { return seppo::layer_norm(in[0], in[1], in[2], eps); },
          .reference = [=](const auto& in) { return ref::layer_norm(in[0], in[1], in[2], eps); },
          .fits = have_width(x, {gain, bias}) && eps >= 0,
          .torch = "F.layer_norm(x[0], x[1].shape, x[1], x[2], " + text(eps) + ")",
          .terms = [=](std::span<const double> most) { return most[1] * most[0] / std::sqrt(1e-5) + most[2]; }};
}

OpCase add_norm(Draw& d) {
  const Shape x = d.input(kRows), y = d.input_like(x), gain = d.input_like({x.cols()}), bias = d.input_like({x.cols()});
  const double eps = epsilon(d, x);
  const auto sum = [](const auto& in) { return ref::zip(in[0], in[1], [](auto a, auto b) { return a + b; }); };
  return {
      .op = [=](Inputs in) { return seppo::add_norm(in[0], in[1], in[2], in[3], {.eps = eps}); },
      .reference = [=](const auto& in) { return ref::layer_norm(sum(in), in[2], in[3], eps); },
      .fits = have_width(x, {gain, bias}) && x == y && eps >= 0,
      .torch = "F.layer_norm(x[0] + x[1], x[2].shape, x[2], x[3], " + text(eps) + ")",
      .terms = [=](std::span<const double> most) { return most[2] * (most[0] + most[1]) / std::sqrt(1e-5) + most[3]; }};
}

OpCase rms_norm(Draw& d) {
  const Shape x = d.input(kRows), gain = d.input_like({x.cols()});
  const double eps = epsilon(d, x);
  return {.op = [=](Inputs in) { return seppo::rms_norm(in[0], in[1], eps); },
          .reference =
              [=](const auto& in) {
                return ref::along(in[0], -1, [&](auto& row) {
                  auto squares = 0.0 * row[0];
                  for (const auto& e : row) squares += e * e / static_cast<double>(row.size());
                  for (std::size_t j = 0; j < row.size(); ++j) row[j] = row[j] / std::sqrt(squares + eps) * in[1].v[j];
                });
              },
          .fits = have_width(x, {gain}) && eps >= 0,
          .torch = "x[0] * torch.rsqrt((x[0] * x[0]).mean(-1, keepdim=True) + " + text(eps) + ") * x[1]",
          .terms = [=](std::span<const double> most) { return most[1] * most[0] / std::sqrt(1e-5); }};
}

// Normalises the columns of x[0] with their own statistics or those in x[3] and x[4].
template <class T>
Nd<T> normalised_columns(const Arrays<T>& x, double eps, bool is_given) {
  const auto n = static_cast<std::size_t>(x[0].size(-1));
  const std::size_t rows = x[0].v.size() / n;
  Nd<T> y = x[0];
  for (std::size_t j = 0; j < n; ++j) {
    T mean = 0, variance = 0;
    for (std::size_t i = 0; i < rows; ++i) mean += x[0].v[i * n + j] / static_cast<double>(rows);
    if (is_given) mean = real_part(x[3].v[j]);
    for (std::size_t i = 0; i < rows; ++i) {
      const T deviation = x[0].v[i * n + j] - mean;
      variance += deviation * deviation / static_cast<double>(rows);
    }
    if (is_given) variance = real_part(x[4].v[j]) * real_part(x[4].v[j]) + 0.5;
    for (std::size_t i = 0; i < rows; ++i)
      y.v[i * n + j] = (x[0].v[i * n + j] - mean) / std::sqrt(variance + eps) * x[1].v[j] + x[2].v[j];
  }
  return y;
}

// Running statistics are copies, as the op changes them.
OpCase batch_norm(Draw& d, bool is_given) {
  const Shape x = d.input({{5, 3}, {2, 3, 4}, {2, 2, 2, 1}, {4, 1}}), n{x.cols()};
  const Shape gain = d.input_like(n), bias = d.input_like(n), mean = d.input_like(n), variance = d.input_like(n);
  const double momentum = d.number({0.1, 0}), eps = d.number({0.01});
  const seppo::BatchNormOptions options{.momentum = momentum, .eps = eps, .use_running_statistics = is_given};
  const std::string statistics = is_given ? "x[3].detach(), x[4].detach() ** 2 + 0.5, " : "None, None, ";
  const std::string rest = std::string(is_given ? "False" : "True") + ", 0.1, 0.01).reshape(x[0].shape)";
  return {.op =
              [=](Inputs in) {
                return seppo::batch_norm(in[0], in[1], in[2], seppo::scale(in[3], 1), seppo::square(in[4]) + 0.5,
                                         options);
              },
          .reference = [=](const auto& in) { return normalised_columns(in, eps, is_given); },
          .fits = have_width(x, {gain, bias, mean, variance}) && momentum >= 0 && momentum <= 1 && eps >= 0 &&
                  (is_given || x.rows() > 1),
          .torch = "F.batch_norm(x[0].flatten(0, -2), " + statistics + "x[1], x[2], " + rest,
          .options = {.in_eval_mode = is_given, .constants = 2}};
}

}  // namespace

std::vector<OpRow> softmax_and_norm_rows() {
  const Shape row{1000};
  const std::vector<Shape> none_of_tasks{};
  return {
      {"softmax", softmax, {kWide}, Range::finite},
      {"log_softmax", log_softmax, {kWide}, Range::finite},
      {"masked softmax", masked_softmax, {{4, 90, 90}}, Range::finite},
      {"layer_norm", layer_norm, {kWide, row, row}, Range::finite},
      {"add_norm", add_norm, {kWide, kWide, row, row}, Range::finite},
      {"rms_norm", rms_norm, {kWide, row}, Range::finite},
      {"batch_norm of a batch", [](Draw& d) { return batch_norm(d, false); }, none_of_tasks},
      {"batch_norm by running statistics", [](Draw& d) { return batch_norm(d, true); }, {kWide, row, row, row, row}}};
}

}  // namespace test
