// Rows of products: matmul, einsum, linear, attention.
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace test {

namespace {

namespace ref = test::reference;

double product_of_largest(std::span<const double> most) { return most[0] * most[1]; }

// ---- matmul

// A vector as a row or a column.
template <class T>
Nd<T> as_matrix(Nd<T> x, bool is_left) {
  if (x.rank() == 1) x.shape.insert(is_left ? x.shape.begin() : x.shape.end(), 1);
  return x;
}

template <class T>
Nd<T> matmul_of(const Nd<T>& a, const Nd<T>& b) {
  Nd<T> y = ref::matmul(as_matrix(a, true), as_matrix(b, false));
  if (b.rank() == 1) y.shape.pop_back();
  if (a.rank() == 1) y.shape.erase(y.shape.end() - (b.rank() == 1 ? 1 : 2));
  return y;
}

Shape batch_of(const Shape& x) { return Shape(x.sizes().first(static_cast<std::size_t>(std::max(x.rank() - 2, 0)))); }

// Whether the inner sizes agree and the leading axes can be broadcast.
bool can_multiply(const Shape& a, const Shape& b) {
  return a.rank() > 0 && b.rank() > 0 && a[-1] == (b.rank() == 1 ? b[0] : b[-2]) && broadcast(batch_of(a), batch_of(b));
}

OpCase matmul(Draw& d) {
  const Shape a = d.input(
      {{4}, {2, 3}, {1, 1}, {5, 1}, {0, 3}, {3, 0}, {2, 3, 4}, {1, 3, 4}, {2, 1, 4, 5}, {17, 9}, {4, 4}, {2, 3, 3}});
  const bool is_vector = d.flag();
  const int inner = a.cols();
  Shape wanted{inner};
  if (!is_vector) {
    wanted = d.broadcastable(batch_of(a));
    if (wanted.rank() > Shape::kMaxRank - 2) wanted = {};
    wanted.append(inner);
    wanted.append(d.one_of<int>({4, 1, 0, 3}));
  }
  const Shape b = d.input_like(wanted);
  return {.op = [](Inputs x) { return seppo::matmul(x[0], x[1]); },
          .reference = [](const auto& x) { return matmul_of(x[0], x[1]); },
          .fits = can_multiply(a, b),
          .torch = "torch.matmul(x[0], x[1])",
          .terms = product_of_largest};
}

// ---- einsum: the labels of both operands and of the result

struct Equation {
  std::string a, b, y;
  bool has_b = true;
  std::string str() const { return has_b ? a + "," + b + "->" + y : a + "->" + y; }
};

const std::vector<Equation> kEquations{{"ij", "jk", "ik"},       {"ij", "jk", "ki"},
                                       {"ij", "kj", "ik"},       {"bqhd", "bkhd", "bhqk"},
                                       {"bhqk", "bkhd", "bqhd"}, {"bij", "bjk", "bik"},
                                       {"bij", "jk", "bik"},     {"i", "i", ""},
                                       {"i", "j", "ij"},         {"i", "j", "ji"},
                                       {"ij", "ij", "ij"},       {"ij", "ji", "ij"},
                                       {"ij", "ij", ""},         {"ij", "ij", "j"},
                                       {"ij", "k", "k"},         {"ijk", "l", "il"},
                                       {"", "ij", "ji"},         {"", "", ""},
                                       {"ijkl", "lkji", ""},     {"abcd", "cd", "ba"},
                                       {"ab", "cd", "dbca"},     {"ij", "", "ji", false},
                                       {"ijk", "", "k", false},  {"ijk", "", "ki", false},
                                       {"ij", "", "", false},    {"", "", "", false},
                                       {"ij", "", "ij", false},  {"abcdef", "", "fbdcae", false}};

Shape shape_of_labels(const std::string& labels) {
  std::vector<int> sizes;
  for (const char label : labels) sizes.push_back(2 + (label - 'a') % 3);
  return shape_of(sizes);
}

// The size of each label, by its letter.
struct Extents {
  std::array<int, 26> sizes;
  bool fit = true;

  Extents() { sizes.fill(-1); }
  void note(const std::string& labels, const Shape& shape) {
    fit = fit && shape.rank() == std::ssize(labels);
    for (std::size_t i = 0; fit && i < labels.size(); ++i) {
      int& size = sizes[static_cast<std::size_t>(labels[i] - 'a')];
      fit = size < 0 || size == shape[static_cast<int>(i)];
      size = shape[static_cast<int>(i)];
    }
  }
  std::vector<int> of(const std::string& labels) const {
    std::vector<int> all;
    for (const char label : labels) all.push_back(sizes[static_cast<std::size_t>(label - 'a')]);
    return all;
  }
};

template <class T>
Nd<T> einsum_of(const Equation& e, const Extents& extents, const Arrays<T>& x) {
  std::string labels = e.a;
  for (const char label : e.b)
    if (labels.find(label) == std::string::npos) labels += label;
  const auto select = [&](const std::vector<int>& index, const std::string& own) {
    std::vector<int> result;
    for (const char label : own) result.push_back(index[labels.find(label)]);
    return result;
  };
  Nd<T> y(extents.of(e.y));
  each_index(extents.of(labels), [&](const std::vector<int>& index) {
    const T left = x[0](select(index, e.a));
    y(select(index, e.y)) += e.has_b ? left * x[1](select(index, e.b)) : left;
  });
  return y;
}

OpCase einsum(Draw& d) {
  const Equation e = d.one_of(kEquations);
  Extents extents;
  extents.note(e.a, d.input_like(shape_of_labels(e.a)));
  if (e.has_b) extents.note(e.b, d.input_like(shape_of_labels(e.b)));
  return {.op = [=](Inputs x) { return e.has_b ? seppo::einsum(e.str(), x[0], x[1]) : seppo::einsum(e.str(), x[0]); },
          .reference = [=](const auto& x) { return einsum_of(e, extents, x); },
          .fits = extents.fit,
          .torch = "torch.einsum('" + e.str() + "', *x)",
          .terms = [=](std::span<const double> most) { return e.has_b ? most[0] * most[1] : most[0]; }};
}

// ---- linear

template <class T>
T activated(const T& x, seppo::Activation activation) {
  using enum seppo::Activation;
  switch (activation) {
    case geglu_tanh: {
      const auto inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1.0 + std::tanh(inner));
    }
    case relu: {  // close to the kink, rounding errors choose the side
      const double at = real_part(x), slope = at > 0 ? 1 : 0;
      return with_slope(x, std::max(at, 0.0), std::abs(at) < 1e-9 ? std::numeric_limits<double>::quiet_NaN() : slope);
    }
    case gelu:
    case geglu:
      return 0.5 * x * (1.0 + ref::erf(x / std::sqrt(2.0)));
    case silu:
    case swiglu:
      return x / (1.0 + std::exp(-x));
    default:
      return x;
  }
}

// y = activation(x W^T + b); a vector W gives no axis of its own.
template <class T>
Nd<T> linear_of(const Arrays<T>& in, seppo::Activation activation) {
  Nd<T> weight = in[1];
  if (weight.rank() == 1) weight.shape.insert(weight.shape.begin(), 1);
  Nd<T> x = in[0];
  const int width = x.size(-1), rows = width == 0 ? 0 : static_cast<int>(x.v.size()) / width;
  std::vector<int> sizes = x.shape;
  sizes.back() = weight.size(0);
  x.shape = {width == 0 ? static_cast<int>(Nd<T>::count(sizes)) / std::max(weight.size(0), 1) : rows, width};
  Nd<T> y = ref::matmul(x, ref::permute(weight, {1, 0}));
  if (in.size() > 2) y = ref::zip(y, in[2], [](const T& a, const T& b) { return a + b; });
  y = ref::map(y, [=](const T& e) { return activated(e, activation); });
  if (in[1].rank() == 1) sizes.pop_back();
  y.shape = sizes;
  return y;
}

OpCase linear(Draw& d) {
  const Shape x = d.input({{3, 4}, {4}, {2, 3, 4}, {1, 1}, {0, 4}, {2, 2, 3, 4}, {9, 17}, {5, 5}});
  const bool has_axis_out = d.one_of<bool>({true, false}), has_bias = d.flag();
  const Shape weight = d.input_like(has_axis_out ? Shape{d.one_of<int>({5, 18}), x.cols()} : Shape{x.cols()});
  const Shape out = weight.rank() == 2 ? Shape{weight[0]} : Shape{};
  const Shape bias = has_bias ? d.input_like(out) : out;
  using enum seppo::Activation;
  const auto activation = d.one_of<seppo::Activation>({none, relu, gelu, silu});
  const std::string names[] = {"", "F.relu", "F.gelu", "", "F.silu"};
  return {.op = [=](Inputs in) { return seppo::linear(in[0], in[1], has_bias ? in[2] : Tensor(), activation); },
          .reference = [=](const auto& in) { return linear_of(in, activation); },
          .fits = x.rank() > 0 && (weight.rank() == 1 || weight.rank() == 2) && weight[-1] == x[-1] && bias == out,
          .torch = names[static_cast<int>(activation)] +
                   (weight.rank() == 1 && has_bias ? "(F.linear(*x[:2]) + x[2])" : "(F.linear(*x))"),
          .terms = [=](std::span<const double> most) { return most[0] * most[1] + (has_bias ? most[2] : 0); }};
}

// activation(a) b
OpCase gated(Draw& d) {
  const Shape a = d.input({{3, 4}, {4}, {0, 4}, {2, 3, 4}, {}});
  const Shape b = d.input_like(a);
  using enum seppo::Activation;
  const auto activation = d.one_of<seppo::Activation>({swiglu, geglu, geglu_tanh});
  const std::string names[] = {"F.silu(x[0])", "F.gelu(x[0])", "F.gelu(x[0], approximate='tanh')"};
  return {.op = [=](Inputs in) { return seppo::gated(in[0], in[1], activation); },
          .reference =
              [=](const auto& in) {
                return ref::zip(in[0], in[1],
                                [=](const auto& x, const auto& y) { return activated(x, activation) * y; });
              },
          .fits = a == b,
          .torch = names[static_cast<int>(activation) - static_cast<int>(swiglu)] + " * x[1]",
          .terms = [](std::span<const double> most) { return (1 + most[0]) * most[1]; }};
}

// With W + scale B A in the place of W, the inputs being x, W, A and B, and perhaps a bias.
OpCase linear_lora(Draw& d) {
  const Shape x = d.input({{3, 4}, {4}, {0, 4}, {9, 17}, {5, 5}});
  const Shape weight = d.input_like({d.one_of<int>({5, 18}), x.cols()});
  const Shape a = d.input_like({d.one_of<int>({2, 5}), x.cols()});
  const Shape b = d.input_like({weight.rank() == 2 ? weight[0] : 1, a.rank() == 2 ? a[0] : 1});
  const bool has_bias = d.flag(), is_gelu = d.flag();
  const Shape out{weight.rank() == 2 ? weight[0] : 1};
  const Shape bias = has_bias ? d.input_like(out) : out;
  const auto activation = is_gelu ? seppo::Activation::gelu : seppo::Activation::none;
  const double scale = 1.5;
  const bool are_matrices = weight.rank() == 2 && a.rank() == 2 && b.rank() == 2;
  const std::string sum = "F.linear(x[0], x[1] + 1.5 * x[3] @ x[2]" + std::string(has_bias ? ", x[4])" : ")");
  return {.op =
              [=](Inputs in) {
                return seppo::linear_lora(in[0], in[1], {in[2], in[3], scale}, has_bias ? in[4] : Tensor(), activation);
              },
          .reference =
              [=](const auto& in) {
                auto merged = in;
                merged.resize(2);
                merged[1] = ref::zip(in[1], ref::matmul(in[3], in[2]), [=](auto w, auto p) { return w + scale * p; });
                if (has_bias) merged.push_back(in[4]);
                return linear_of(merged, activation);
              },
          .fits = are_matrices && x.rank() > 0 && weight[1] == x[-1] && a[1] == x[-1] && b == Shape{weight[0], a[0]} &&
                  bias == out,
          .torch = is_gelu ? "F.gelu(" + sum + ")" : sum,
          .options = {.low = -0.5, .high = 0.5},
          .terms =
              [=](std::span<const double> most) {
                return most[0] * (most[1] + most[2] * most[3]) + (has_bias ? most[4] : 0);
              }};
}

// ---- attention over rectangular batches

// One head after another, padded to the wider of the widths of keys and values: columns of zeros change only the scale
// of the scores.
struct Heads {
  Shape q, k, v;
  int count, kv_count;
  bool is_causal;

  int width() const { return q[2] / count; }
  int v_width() const { return v[2] / kv_count; }
  int wide() const { return std::max(width(), v_width()); }

  template <class T>
  Nd<T> head_of(const Nd<T>& x, int head, int columns, double scale) const {
    const int rows = x.shape[0] * x.shape[1];
    Nd<T> y({rows, wide()});
    for (int i = 0; i < rows; ++i)
      for (int c = 0; c < columns; ++c)
        y({i, c}) = scale * x.v[static_cast<std::size_t>(i * x.shape[2] + head * columns + c)];
    return y;
  }

  template <class T>
  Nd<T> attention(const Arrays<T>& in) const {
    const int queries = q[1], keys = k[1];
    const auto allowed = [=, this](int i, int j) { return !is_causal || j <= i + keys - queries; };
    Nd<T> out({q[0], queries, count * v_width()});
    for (int head = 0; head < count; ++head) {
      const int of_keys = head / (count / kv_count);
      const Nd<T> a = head_of(in[0], head, width(), std::sqrt(wide() / static_cast<double>(width())));
      const Nd<T> b = head_of(in[1], of_keys, width(), 1), c = head_of(in[2], of_keys, v_width(), 1);
      Nd<T> part(a.shape);
      for (int s = 0; s < q[0]; ++s)
        ref::attention(part, a, b, c, s * queries, (s + 1) * queries, s * keys, (s + 1) * keys, 0, wide(), allowed);
      for (int i = 0; i < a.shape[0]; ++i)
        for (int e = 0; e < v_width(); ++e)
          out.v[static_cast<std::size_t>((i * count + head) * v_width() + e)] = part({i, e});
    }
    return out;
  }
};

bool can_attend(const Heads& h) {
  if (h.q.rank() != 3 || h.k.rank() != 3 || h.v.rank() != 3 || h.q[0] != h.k[0] || h.q[0] != h.v[0]) return false;
  if (h.q[0] > 0 && h.k[1] != h.v[1]) return false;
  if (h.count <= 0 || h.q[2] == 0 || h.k[2] == 0 || h.v[2] == 0 || h.q[2] % h.count != 0) return false;
  return h.k[2] % h.width() == 0 && h.kv_count == h.k[2] / h.width() && h.count % h.kv_count == 0 &&
         h.v[2] % h.kv_count == 0;
}

OpCase attention(Draw& d) {
  Heads h{.q = d.input({{2, 3, 4}, {1, 4, 4}, {2, 1, 8}}),
          .k = {},
          .v = {},
          .count = 0,
          .kv_count = 1,
          .is_causal = d.flag()};
  h.count = d.integer(1, 2);
  const bool is_batch = h.q.rank() == 3, has_heads = is_batch && h.count > 0 && h.q[2] % h.count == 0 && h.q[2] > 0;
  const int width = has_heads ? h.width() : 1, kv_heads = d.flag() ? 1 : std::max(h.count, 1);
  const int keys = d.one_of<int>({3, 1, 5}), v_width = d.one_of<int>({width, 3});
  h.k = d.input_like(is_batch ? Shape{h.q[0], keys, width * kv_heads} : h.q);
  h.v = d.input_like(is_batch ? Shape{h.q[0], keys, v_width * kv_heads} : h.q);
  if (h.k.rank() == 3 && h.k[2] > 0 && h.k[2] % width == 0) h.kv_count = h.k[2] / width;
  return {.op =
              [=](Inputs in) {
                const seppo::Mask mask = h.is_causal ? seppo::Mask::causal() : seppo::Mask::none();
                return seppo::attention(in[0], in[1], in[2], h.count, {.mask = mask});
              },
          .reference = [=](const auto& in) { return h.attention(in); },
          .fits = can_attend(h),
          .terms =
              [](std::span<const double> most) {
                const double score = most[0] * most[1];
                return score > 1e3 ? 1e300 : (1 + score) * most[2];
              }};
}

}  // namespace

std::vector<OpRow> product_rows() {
  return {{"matmul", matmul, {{6, 40, 70}, {6, 70, 50}}, Range::finite},
          {"einsum", einsum, {}, Range::finite},
          {"linear", linear, {{130, 200}, {150, 200}, {150}}, Range::finite},
          {"gated", gated, {{130, 200}, {130, 200}}, Range::moderate},
          {"linear_lora", linear_lora, {{130, 200}, {150, 200}, {8, 200}, {150, 8}, {150}}, Range::finite},
          {"attention", attention, {}, Range::finite}};
}

}  // namespace test
