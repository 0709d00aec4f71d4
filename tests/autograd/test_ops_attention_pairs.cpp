// attention() with every pair of its features, in short and long sequences, against a naive loop: values, and the
// derivative along a random direction of all inputs; and the maps that an observer is shown.
// needs: precision: double; simd: avx2 plain
#include "support/op_check.h"
#include "support/pairs.h"
#include "support/reference.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/autograd/tools/attention_recorder.h>

#include <cmath>
#include <iostream>
#include <string>
#include <vector>

using namespace test;

namespace {

constexpr int kHeads = 4, kWidth = 3;
constexpr int kLengths[] = {4, 40, 256, 257};  // short; long; all keys that are taken at a time, and one more
constexpr int kWindows[] = {0, 1, 3, 129};
constexpr double kCap = 0.7, kDropout = 0.25;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct Form {
  int length = 0, window = 0;  // of the lists above
  int mask = 0;                // none, causal, valid lengths, both, pairs
  int bias = 0;                // none, [queries, keys], with heads, and with sequences
  int kv_heads = kHeads;
  int sharing = 0;  // none, columns of one matrix, K as V, or one tensor for all three
  bool has_slopes = false, has_positions = false, has_cap = false, has_scale = false, drops = false;
  bool has_wide_v = false;

  void fields(seppo::ConfigVisitor& v) {
    v("length", length, {0, 3});
    v("window", window, {0, 3});
    v("mask", mask, {0, 4});
    v("bias", bias, {0, 3});
    v("kv_heads", kv_heads, {1, kHeads});
    v("sharing", sharing, {0, 3});
    v("has_slopes", has_slopes);
    v("has_positions", has_positions);
    v("has_cap", has_cap);
    v("has_scale", has_scale);
    v("drops", drops);
    v("has_wide_v", has_wide_v);
  }
  bool is_legal() const {
    const bool has_own_v = sharing < 2, has_own_q = sharing < 3;
    return kHeads % kv_heads == 0 && (has_own_v || !has_wide_v) && (has_own_q || kv_heads == kHeads);
  }
  bool has_maps() const { return length < 2; }  // the others would take long, and differ in nothing else
  bool has_equal_rows() const { return sharing % 2 == 1; }
  std::size_t q() const { return sharing == 3 ? 1 : 0; }  // which input it is
  std::size_t v() const { return sharing >= 2 ? 1 : 2; }
  int v_width() const { return has_wide_v ? kWidth + 2 : kWidth; }
  double scale() const { return has_scale ? 0.4 : 1 / std::sqrt(double{kWidth}); }
};

std::string text_of(Form form) {
  std::string text;
  for (const seppo::Field& field : seppo::fields_of(form)) {
    const auto* const* flag = std::get_if<bool*>(&field.value);
    text += field.name + " " + std::to_string(flag ? int{**flag} : *std::get<int*>(field.value)) + ", ";
  }
  return text;
}

// What a form is called with, drawn from a seed.
struct Problem {
  Form form;
  std::vector<int> q_rows{0}, k_rows{0}, lengths, positions;
  std::vector<std::uint8_t> pairs;
  std::vector<real> slopes{1, 0.5, 0.25, 0.125};
  std::vector<std::size_t> first_pair;    // of each sequence
  std::vector<std::vector<double>> kept;  // of each sequence, the factors of dropout [head, query, padded key]
  Arrays<double> x, direction;

  explicit Problem(const Form& f) : form(f), random_(7, seppo::Purpose::test) {
    const int longest = kLengths[f.length];
    for (const int keys : {longest, 3, longest / 2}) add_sequence(keys);
    for (int row = 0; row < q_rows.back(); ++row) positions.push_back(static_cast<int>(random_.below(9)));
    draw({q_rows.back(), kHeads * kWidth});
    draw({k_rows.back(), f.kv_heads * kWidth});
    draw({k_rows.back(), f.kv_heads * f.v_width()});
    if (f.bias > 0) draw(bias_shape());
  }

  int sequences() const { return static_cast<int>(q_rows.size()) - 1; }
  int queries(int s) const { return q_rows[at(s + 1)] - q_rows[at(s)]; }
  int keys(int s) const { return k_rows[at(s + 1)] - k_rows[at(s)]; }

  bool allows(int s, int i, int j) const {
    const bool is_causal = form.mask == 1 || form.mask == 3, has_lengths = form.mask == 2 || form.mask == 3;
    int last = keys(s) - 1;
    if (is_causal) last = std::min(last, i + keys(s) - queries(s));
    if (has_lengths) last = std::min(last, lengths[at(s)] - 1);
    const int window = kWindows[form.window];
    if (j > last || (window > 0 && j <= last - window)) return false;
    return form.mask != 4 || pairs[first_pair[at(s)] + at(i * keys(s) + j)] != 0;
  }
  double alibi(int s, int h, int i, int j) const {
    if (!form.has_slopes) return 0;
    const int place = form.has_positions ? positions[at(q_rows[at(s)] + i)] : i + keys(s) - queries(s);
    return -slopes[at(h)] * std::abs(place - j);
  }
  double factor(int s, int h, int i, int j) const {
    return form.drops ? kept[at(s)][at((h * queries(s) + i) * padded(s) + j)] : 1;
  }
  template <class T>
  T bias(const Arrays<T>& in, int s, int h, int i, int j) const {
    if (form.bias == 0) return 0;
    const Nd<T>& b = in[3];
    if (form.bias == 1) return b({i, j});
    return form.bias == 2 ? b({h, i, j}) : b({s, h, i, j});
  }

  seppo::AttentionOptions options(const Tensor& bias) const {
    seppo::AttentionOptions o{.dropout = form.drops ? kDropout : 0, .bias = bias};
    if (form.mask == 1) o.mask = seppo::Mask::causal();
    if (form.mask == 2) o.mask = seppo::Mask::valid_lengths(lengths);
    if (form.mask == 3) o.mask = seppo::Mask::causal_valid_lengths(lengths);
    if (form.mask == 4) o.mask = seppo::Mask::allowed(pairs);
    if (form.has_slopes) o.slopes = slopes;
    if (form.has_positions) o.positions = positions;
    if (form.has_cap) o.softcap = kCap;
    if (form.has_scale) o.scale = form.scale();
    o.window = kWindows[form.window];
    return o;
  }

 private:
  int padded(int s) const { return (keys(s) + 127) / 128 * 128; }
  std::vector<int> bias_shape() const {
    const int rows = queries(0), columns = keys(0);  // the longest
    if (form.bias == 1) return {rows, columns};
    if (form.bias == 2) return {kHeads, rows, columns};
    return {sequences(), kHeads, rows, columns};
  }
  void add_sequence(int n) {
    const int s = sequences();
    k_rows.push_back(k_rows.back() + n);
    q_rows.push_back(q_rows.back() + (form.has_equal_rows() ? n : std::min(n, 60)));
    lengths.push_back(s == 1 ? 0 : n - 1);
    first_pair.push_back(pairs.size());
    for (int i = 0; i < queries(s) * n; ++i) pairs.push_back(random_.below(3) > 0 ? 1 : 0);
    seppo::Tape t;
    const seppo::UseTape use(t);
    t.random = {.seed = 3, .step = 5, .sample = static_cast<std::uint32_t>(s)};
    const Tensor mask = seppo::dropout(seppo::ones({kHeads, queries(s), padded(s)}), kDropout);
    kept.emplace_back(mask.values().begin(), mask.values().end());
  }
  void draw(const std::vector<int>& shape) {
    for (Arrays<double>* to : {&x, &direction}) {
      to->emplace_back(shape);
      for (double& value : to->back().v) value = random_.normal();
    }
  }

  seppo::RandomStream random_;
};

template <class T>
Nd<T> naive(const Problem& p, const Arrays<T>& in) {
  const int v_width = p.form.v_width(), shared = kHeads / p.form.kv_heads;
  Nd<T> out({p.q_rows.back(), kHeads * v_width});
  for (int s = 0; s < p.sequences(); ++s)
    for (int h = 0; h < kHeads; ++h)
      for (int i = 0; i < p.queries(s); ++i) {
        const int row = p.q_rows[at(s)] + i, first = p.k_rows[at(s)];
        std::vector<T> weights;
        for (int j = 0; j < p.keys(s); ++j) {
          T score = 0;
          for (int c = 0; c < kWidth; ++c)
            score +=
                p.form.scale() * in[p.form.q()]({row, h * kWidth + c}) * in[1]({first + j, h / shared * kWidth + c});
          if (p.form.has_cap) score = kCap * std::tanh(score / kCap);
          weights.push_back(score + p.bias(in, s, h, i, j) + p.alibi(s, h, i, j));
        }
        reference::softmax_allowed<T>(weights, [&](std::size_t j) { return p.allows(s, i, static_cast<int>(j)); });
        for (int j = 0; j < p.keys(s); ++j)
          for (int c = 0; c < v_width; ++c)
            out({row, h * v_width + c}) +=
                p.factor(s, h, i, j) * weights[at(j)] * in[p.form.v()]({first + j, h / shared * v_width + c});
      }
  return out;
}

// A recorded map, of weights before dropout, times V is what the naive loop makes without dropout.
void check_map(const Problem& p, const seppo::AttentionMap& map) {
  Problem undropped = p;
  undropped.form.drops = false;
  const Nd<double> expected = naive(undropped, p.x);
  const int v_width = p.form.v_width(), shared = kHeads / p.form.kv_heads;
  std::vector<double> sums;
  for (int s = 0; s < p.sequences(); ++s)
    for (int i = 0; i < p.queries(s); ++i)
      for (int h = 0; h < kHeads; ++h)
        for (int c = 0; c < v_width; ++c) {
          const real* const row = &map.weights[at(((s * kHeads + h) * map.shape[2] + i) * map.shape[3])];
          sums.push_back(0);
          for (int j = 0; j < p.keys(s); ++j)
            sums.back() += row[j] * p.x[p.form.v()]({p.k_rows[at(s)] + j, h / shared * v_width + c});
        }
  check_close(sums, expected.v, 1e-11, "map times V");
}

struct Found {
  std::vector<real> values;
  double slope = 0;  // of cotangent . values along the direction
  std::vector<std::vector<real>> gradients = {};
};

Found attention(const Problem& p, const std::vector<real>& cotangent) {
  const int q = kHeads * kWidth, k = p.form.kv_heads * kWidth, v = p.form.kv_heads * p.form.v_width();
  seppo::Tape& tape = seppo::tape();
  tape.clear();
  soil(tape);
  tape.random = {.seed = 3, .step = 5};
  std::vector<Tensor> inputs;
  for (const Nd<double>& x : p.x) inputs.push_back(seppo::variable(Shape(std::span<const int>(x.shape)), x.v));
  std::vector<seppo::Columns> columns{inputs[p.form.q()], inputs[1], inputs[p.form.v()]};
  if (p.form.sharing == 1) {
    const Tensor all = seppo::concat({inputs[0], inputs[1], inputs[2]}, 1);
    columns = {{all, 0, q}, {all, q, k}, {all, q + k, v}};
  }
  const auto attend = [&] {
    return seppo::attention(columns[0], columns[1], columns[2], kHeads, p.q_rows, p.k_rows,
                            p.options(p.form.bias > 0 ? inputs[3] : Tensor()));
  };
  if (p.form.has_maps()) {
    seppo::AttentionRecorder recorder;
    const seppo::Observe observe(recorder);
    attend();
    BOOST_REQUIRE_EQUAL(recorder.maps.size(), 1u);
    check_map(p, recorder.maps[0]);
    tape.random = {.seed = 3, .step = 5};
  }
  const Tensor y = attend();
  Found found{.values = {y.values().begin(), y.values().end()}};
  tape.backward(y, cotangent);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].node().grad) continue;  // another input has taken its place
    const auto g = inputs[i].grad();
    for (std::size_t e = 0; e < g.size(); ++e) found.slope += g[e] * p.direction[i].v[e];
    found.gradients.emplace_back(g.begin(), g.end());
  }
  tape.clear();
  return found;
}

// The derivative of cotangent . naive(x) along the direction, by a complex step.
double slope_of(const Problem& p, const std::vector<real>& cotangent) {
  Arrays<Complex> z;
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    z.emplace_back(p.x[i].shape);
    for (std::size_t e = 0; e < z[i].v.size(); ++e) z[i].v[e] = {p.x[i].v[e], 1e-30 * p.direction[i].v[e]};
  }
  const Nd<Complex> y = naive(p, z);
  double slope = 0;
  for (std::size_t e = 0; e < y.v.size(); ++e) slope += cotangent[e] * y.v[e].imag() / 1e-30;
  return slope;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_pair_of_features) {
  test::Pairs<Form> pairs(
      {}, [](const Form& f) { return f.is_legal(); }, 1);
  int forms = 0;
  while (const auto form = pairs.next()) BOOST_TEST_CONTEXT(text_of(*form)) {
      const Problem p(*form);
      const Nd<double> expected = naive(p, p.x);
      seppo::RandomStream random(9, seppo::Purpose::test);
      std::vector<real> cotangent(expected.v.size());
      for (real& c : cotangent) c = random.normal();
      const Found found = attention(p, cotangent);
      check_close(found.values, expected.v, 1e-11, "value");
      const double slope = slope_of(p, cotangent);
      BOOST_CHECK_MESSAGE(std::abs(found.slope - slope) < 1e-10 * std::sqrt(double(cotangent.size())),
                          "slope " << found.slope << ", expected " << slope);
      for (const int threads : {2, 5}) {
        seppo::set_num_threads(threads);
        const Found threaded = attention(p, cotangent);
        seppo::set_num_threads(1);
        BOOST_CHECK_MESSAGE(threaded.values == found.values && threaded.gradients == found.gradients, "threads");
      }
      ++forms;
    }
  std::cout << forms << " forms of attention\n";
  BOOST_CHECK_GT(forms, 25);
}
