// Each kernel of the library against the same kernel as a textbook writes it (autograd/kernels/reference), on random
// numbers of all sizes around those of vectors.
// needs: precision: single double; simd: avx512 avx2 plain; engine: fast
#include <seppo/autograd/core/memory.h>
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/kernels/kernels.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#define SEPPO_REFERENCE_KERNEL(name) static_assert(true)  // the functions alone, beside the library's kernels
#include <seppo/autograd/kernels/reference/arrays.cpp>
#include <seppo/autograd/kernels/reference/attention.cpp>
#include <seppo/autograd/kernels/reference/elementwise.cpp>
#include <seppo/autograd/kernels/reference/norms.cpp>
#include <seppo/autograd/kernels/reference/softmax.cpp>

namespace {

using namespace seppo;
namespace reference = kernels::reference;
using Reals = std::vector<real>;

constexpr double kEpsilon{std::numeric_limits<real>::epsilon()};
constexpr double kTolerance = 64 * kEpsilon;  // of a few roundings, and of functions that are fitted
constexpr std::size_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 255, 257, 1100};

Reals draw(std::size_t size, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  Reals values(size);
  for (real& value : values) value = static_cast<real>(random.normal());
  return values;
}

Reals draw_positive(std::size_t size, std::uint64_t seed) {
  Reals values = draw(size, seed);
  for (real& value : values) value = std::abs(value) + real{0.125};
  return values;
}

template <class T>
void check_equal(const std::string& what, const std::vector<T>& got, const std::vector<T>& expected,
                 double tolerance = kTolerance) {
  BOOST_REQUIRE_EQUAL(got.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a{got[i]}, b{expected[i]};
    if (std::isnan(a) && std::isnan(b)) continue;
    const double difference = std::abs(a - b) / std::max(1.0, std::abs(b));
    worst = std::max(worst, std::isnan(difference) ? 1 : difference);
  }
  BOOST_CHECK_MESSAGE(worst <= tolerance, what << " of " << got.size() << ": off by " << worst);
}

// Runs f(kernel, output) for the library's kernel and for the reference's, on outputs that begin equal, and compares.
template <class Kernel, class Output, class F>
void check_both(const std::string& what, Kernel* fast, Kernel* plain, const Output& before, const F& f,
                double tolerance = kTolerance) {
  Output got = before, expected = before;
  f(fast, got);
  f(plain, expected);
  check_equal(what, got, expected, tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(arrays) {
  for (const std::size_t n : kSizes) {
    const Reals x = draw(n, 1), y = draw(n, 2);
    for (const real beta : {real{0}, real{1}})
      check_both("axpy", kernels::axpy, reference::axpy, y,
                 [&](auto f, Reals& to) { f(to.data(), beta, x.data(), real{0.75}, n); });
    check_both("axpy_wide", kernels::axpy_wide, reference::axpy_wide, std::vector<double>(n, 3),
               [&](auto f, std::vector<double>& to) { f(to.data(), x.data(), real{0.75}, n); });
    check_both("add", kernels::add, reference::add, y, [&](auto f, Reals& to) { f(to.data(), x.data(), y.data(), n); });
    for (const auto& [fast, plain] :
         {std::pair{kernels::sum, &reference::sum}, std::pair{kernels::squared_norm, &reference::squared_norm}})
      BOOST_CHECK_SMALL(fast(x.data(), n) - plain(x.data(), n), 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(rows_of_matrices) {
  for (const std::size_t rows : {0u, 1u, 3u, 700u, 1500u})
    for (const std::size_t cols : {1u, 4u, 15u, 17u, 40u}) {
      const std::size_t ldx = cols + 3, ldy = cols + 5;
      const Reals x = draw(rows * ldx, 1), y = draw(rows * ldy, 2);
      check_both(
          "add_column_sums", kernels::add_column_sums, reference::add_column_sums, draw(cols, 3),
          [&](auto f, Reals& sums) { f(sums.data(), x.data(), ldx, rows, cols); }, 10 * kTolerance);
      check_both("copy_rows", kernels::copy_rows, reference::copy_rows, y,
                 [&](auto f, Reals& to) { f(to.data(), ldy, x.data(), ldx, rows, cols); });
      check_both("add_rows", kernels::add_rows, reference::add_rows, y,
                 [&](auto f, Reals& to) { f(to.data(), ldy, x.data(), ldx, rows, cols); });
    }
}

// The same bits are drawn, so that not a single element may differ.
BOOST_AUTO_TEST_CASE(dropout_of_elements) {
  for (const double p : {0.1, 0.5, 1.0})
    for (const std::size_t n : {1u, 127u, 128u, 129u, 1000u})
      for (const real beta : {real{0}, real{1}}) {
        const kernels::Dropping dropping{p, {.seed = 7, .step = 3, .sample = 5, .site = 2}};
        const Reals x = draw_positive(n, 1);
        const std::size_t first = n > 128 ? 128 : 0;
        check_both("dropout", kernels::dropout, reference::dropout, draw(n, 2),
                   [&](auto f, Reals& y) { f(y.data(), beta, x.data(), dropping, first, n); });
      }
}

BOOST_AUTO_TEST_CASE(adam) {
  const real huge = std::numeric_limits<real>::max() / 2;
  for (const std::size_t n : kSizes)
    for (const bool decoupled : {false, true}) {
      const kernels::AdamStep step{.lr = 0.1,
                                   .beta1 = 0.9,
                                   .beta2 = 0.99,
                                   .eps = 1e-8,
                                   .weight_decay = 0.2,
                                   .decoupled = decoupled,
                                   .correction1 = 0.3,
                                   .correction2 = 0.4,
                                   .gradient_scale = 0.5};
      const auto run = [&](auto f) {
        std::vector<Reals> all{draw(n, 1), draw(n, 2), draw(n, 3), draw_positive(n, 4)};
        all[1][0] = huge;
        f(all[0].data(), all[1].data(), all[2].data(), all[3].data(), n, step);
        return all;
      };
      const std::vector<Reals> got = run(kernels::adam), expected = run(reference::adam);
      for (std::size_t i = 0; i < got.size(); ++i) check_equal("adam", got[i], expected[i]);
    }
}

BOOST_AUTO_TEST_CASE(functions) {
  const kernels::UnaryTable &fast = kernels::unary(), &plain = reference::unary();
  using Table = kernels::UnaryTable;
  for (const auto f : {&Table::relu, &Table::gelu, &Table::gelu_tanh, &Table::silu, &Table::tanh, &Table::sigmoid,
                       &Table::softplus, &Table::erf, &Table::exp})
    for (const std::size_t n : kSizes) {
      Reals x = draw(n, 1);
      for (real& value : x) value *= 3;
      if (n > 4) x[2] = std::numeric_limits<real>::quiet_NaN();
      const Reals dy = draw(n, 2);
      check_both("forward", (fast.*f).forward, (plain.*f).forward, Reals(n),
                 [&](auto forward, Reals& y) { forward(y.data(), x.data(), n); });
      Reals y(n);
      (plain.*f).forward(y.data(), x.data(), n);
      for (const real beta : {real{0}, real{1}})
        check_both("backward", (fast.*f).backward, (plain.*f).backward, draw(n, 3),
                   [&](auto backward, Reals& dx) { backward(dx.data(), beta, dy.data(), x.data(), y.data(), n); });
    }
}

BOOST_AUTO_TEST_CASE(softmax_of_rows) {
  for (const std::size_t n : kSizes) {
    const Reals x = draw(n, 1), dy = draw(n, 2);
    for (const std::size_t count : {std::size_t{0}, n / 2, n})
      check_both("softmax_row", kernels::softmax_row, reference::softmax_row, draw(n, 3),
                 [&](auto f, Reals& y) { f(y.data(), x.data(), count, n); });
    Reals y(n);
    reference::softmax_row(y.data(), x.data(), n, n);
    for (const real sign : {real{1}, real{-1}})
      BOOST_CHECK_EQUAL(kernels::max_or_min(x.data(), sign, n), reference::max_or_min(x.data(), sign, n));
    const kernels::LogSumExp got = kernels::log_sum_exp(x.data(), n), sum = reference::log_sum_exp(x.data(), n);
    BOOST_CHECK_EQUAL(got.max, sum.max);
    BOOST_CHECK_SMALL(double{got.log_sum} - double{sum.log_sum}, kTolerance);
    BOOST_CHECK_SMALL(got.below - sum.below, 1e-9);
    for (const real beta : {real{0}, real{1}}) {
      const double tolerance = 4 * kTolerance;  // sums of n terms
      check_both(
          "softmax_row_backward", kernels::softmax_row_backward, reference::softmax_row_backward, draw(n, 4),
          [&](auto f, Reals& dx) { f(dx.data(), beta, dy.data(), y.data(), n); }, tolerance);
      Reals logs(n);
      for (std::size_t j = 0; j < n; ++j) logs[j] = std::log(y[j]);
      check_both(
          "log_softmax_row_backward", kernels::log_softmax_row_backward, reference::log_softmax_row_backward,
          draw(n, 5), [&](auto f, Reals& dx) { f(dx.data(), beta, dy.data(), logs.data(), n); }, tolerance);
      check_both("log_sum_exp_backward", kernels::log_sum_exp_backward, reference::log_sum_exp_backward, draw(n, 6),
                 [&](auto f, Reals& dx) { f(dx.data(), beta, x.data(), sum, real{0.015625}, real{0.75}, n); });
    }
  }
}

// The rows from `first` on, with the sum and the dropouts around them or without.
BOOST_AUTO_TEST_CASE(layer_norm_and_rms_norm) {
  constexpr std::size_t kRows = 11, kFirst = 2;
  const kernels::Dropping dropping{0.3, {.seed = 7, .step = 3, .sample = 5, .site = 2}};
  for (const std::size_t cols : {1u, 3u, 8u, 17u, 64u, 300u})
    for (const bool is_centred : {false, true})
      for (const bool has_all : {false, true}) {
        const std::size_t n = kRows * cols;
        const Reals x = draw(n, 1), y = draw(n, 2), gain = draw(cols, 3), bias = draw(cols, 4), dout = draw(n, 5);
        kernels::NormInputs in{.x = x.data(),
                               .y = has_all ? y.data() : nullptr,
                               .gain = gain.data(),
                               .bias = has_all ? bias.data() : nullptr,
                               .first = kFirst,
                               .last = kRows,
                               .cols = cols,
                               .is_centred = is_centred};
        if (has_all) in.before = in.after = dropping;
        Reals scratch(kernels::norm_scratch(cols));
        std::vector<kernels::RowMoments> moments(kRows);
        check_both(
            "normalise", kernels::normalise, reference::normalise, draw(n, 6),
            [&](auto f, Reals& out) { f(out.data(), moments.data(), in, 1e-3, scratch.data()); }, 4 * kTolerance);
        const auto backward = [&](auto f) {
          std::vector<Reals> all{draw(n, 7), draw(n, 8), draw(cols, 9), draw(cols, 10)};
          const kernels::NormGradients to{.dx = all[0].data(),
                                          .beta_x = 1,
                                          .dy = has_all ? all[1].data() : nullptr,
                                          .beta_y = 0,
                                          .dgain = all[2].data(),
                                          .dbias = has_all ? all[3].data() : nullptr};
          f(to, dout.data(), in, moments.data(), scratch.data());
          return all;
        };
        const std::vector<Reals> got = backward(kernels::normalise_backward),
                                 expected = backward(reference::normalise_backward);
        for (std::size_t i = 0; i < got.size(); ++i)
          check_equal("normalise_backward", got[i], expected[i], 32 * kTolerance);
      }
}

BOOST_AUTO_TEST_CASE(batch_norm_of_columns) {
  using Doubles = std::vector<double>;
  for (const std::size_t rows : {1u, 2u, 33u})
    for (const std::size_t cols : {1u, 5u, 16u, 19u}) {
      const Reals x = draw(rows * cols, 1), gain = draw(cols, 2), bias = draw(cols, 3), dy = draw(rows * cols, 4);
      Doubles mean(cols), squares(cols), expected_squares(cols);
      kernels::column_moments(mean.data(), squares.data(), x.data(), rows, cols);
      Doubles expected_mean(cols);
      reference::column_moments(expected_mean.data(), expected_squares.data(), x.data(), rows, cols);
      check_equal("means", mean, expected_mean, 1e-12);
      check_equal("squares", squares, expected_squares, 1e-12);
      const Doubles scale(cols, 0.7), sums(cols, 0.2), along(cols, 0.1);
      const kernels::ColumnNorm in{x.data(), gain.data(), bias.data(), mean.data(), scale.data(), rows, cols};
      check_both("column_norm", kernels::column_norm, reference::column_norm, Reals(rows * cols),
                 [&](auto f, Reals& y) { f(y.data(), in); });
      check_both(
          "column_norm_sums", kernels::column_norm_sums, reference::column_norm_sums, Doubles(2 * cols, 1),
          [&](auto f, Doubles& to) { f(to.data(), to.data() + cols, dy.data(), in); }, 1e-12);
      check_both("column_norm_backward", kernels::column_norm_backward, reference::column_norm_backward,
                 draw(rows * cols, 5),
                 [&](auto f, Reals& dx) { f(dx.data(), dy.data(), sums.data(), along.data(), in); });
    }
}

namespace {

// Heads of attention with numbers of their own, and what the kernels make of them.
struct Heads {
  std::size_t queries, keys, width, v_width;
  Reals q, k, v, dout, out, dq, dk, dv, bias, dbias;
  std::vector<std::uint8_t> allowed;

  Heads(std::size_t queries, std::size_t keys, std::size_t width, std::size_t v_width, std::uint64_t seed)
      : queries(queries), keys(keys), width(width), v_width(v_width) {
    q = draw(queries * (width + 2), seed);
    k = draw(keys * (width + 2), seed + 1);
    v = draw(keys * (v_width + 3), seed + 2);
    dout = draw(queries * (v_width + 1), seed + 3);
    out = draw(dout.size(), seed + 4);
    dq = draw(q.size(), seed + 5);
    dk = draw(k.size(), seed + 6);
    dv = draw(v.size(), seed + 7);
    bias = draw(queries * (keys + 1), seed + 8);
    dbias = draw(bias.size(), seed + 9);
    allowed.resize(queries * keys);
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] = i % 5 != 0;
  }

  kernels::AttentionHead head(bool causal) {
    kernels::AttentionHead h{};
    h.q = {q.data(), dq.data(), width + 2};
    h.k = {k.data(), dk.data(), width + 2};
    h.v = {v.data(), dv.data(), v_width + 3};
    h.out = {out.data(), dout.data(), v_width + 1};
    h.queries = queries;
    h.keys = keys;
    h.width = width;
    h.v_width = v_width;
    h.valid_keys = keys - keys / 4;
    h.causal = causal;
    h.scale = real{0.375};
    return h;
  }

  void check(const std::string& what, const Heads& expected) const {
    const double tolerance = 64 * kTolerance;  // products of hundreds of terms
    check_equal(what + ": out", out, expected.out, tolerance);
    check_equal(what + ": dq", dq, expected.dq, tolerance);
    check_equal(what + ": dk", dk, expected.dk, tolerance);
    check_equal(what + ": dv", dv, expected.dv, tolerance);
    check_equal(what + ": dbias", dbias, expected.dbias, tolerance);
  }
};

void run_reference(const kernels::AttentionHead& h, const kernels::AttentionDropout& dropout) {
  Reals log_sums(2 * h.queries), scratch(reference::long_attention_scratch(h));
  reference::long_attention(h, h, dropout, log_sums.data(), scratch.data());
  reference::long_attention_backward(h, h, dropout, log_sums.data(), scratch.data());
}

}  // namespace

// A group of heads, of which the last are missing.
BOOST_AUTO_TEST_CASE(attention_of_groups) {
  for (const std::size_t width : {1u, 4u, 6u, 9u})
    for (const bool causal : {false, true})
      for (const bool keeps_inputs : {false, true}) {
        const std::size_t lanes = kernels::attention_group_size();
        const std::size_t size = std::max<std::size_t>(1, lanes - 1);
        std::vector<Heads> got, expected;
        for (std::size_t l = 0; l < size; ++l) got.emplace_back(3 + l % 2, 7 - l % 3, width, width + 1, 20 * l);
        expected = got;
        std::vector<kernels::AttentionHead> heads;
        for (Heads& numbers : got) heads.push_back(numbers.head(causal));
        const kernels::AttentionGroup group{heads.data(), size, 4, 7, keeps_inputs};
        const auto aligned = [](std::size_t elements) { return Memory(elements * sizeof(real)); };
        const Memory saved = aligned(kernels::short_attention_saved(group)),
                     scratch = aligned(kernels::short_attention_scratch(group));
        kernels::short_attention(group, saved.as<real>(), scratch.as<real>());
        kernels::short_attention_backward(group, saved.as<real>(), scratch.as<real>());
        for (std::size_t l = 0; l < size; ++l) {
          run_reference(expected[l].head(causal), {});
          got[l].check("short attention", expected[l]);
        }
      }
}

BOOST_AUTO_TEST_CASE(attention_of_tiles) {
  const std::vector<int> positions(300, 40);
  for (const bool causal : {false, true})
    for (const bool has_all : {false, true})
      for (const auto& [queries, keys, window] : {std::array{1u, 20u, 0u},
                                                  {1u, 20u, 3u},
                                                  {5u, 33u, 0u},
                                                  {70u, 90u, 0u},
                                                  {70u, 90u, 40u},
                                                  {270u, 300u, 0u},
                                                  {270u, 300u, 7u},
                                                  {270u, 300u, 260u}}) {
        Heads got(queries, keys, 8, 5, 1), expected = got;
        kernels::AttentionDropout dropout{};
        if (has_all) dropout = {{0.2, {.seed = 7, .step = 3, .sample = 5, .site = 2}}, 3};
        const auto head = [&, window = window](Heads& numbers) {
          kernels::AttentionHead h = numbers.head(causal);
          h.window = window;
          if (!has_all) return h;
          h.allowed = numbers.allowed.data();
          h.softcap = 2;
          h.bias = {numbers.bias.data(), numbers.dbias.data(), numbers.keys + 1};
          h.slope = real{0.125};
          h.positions = positions.data();
          return h;
        };
        const kernels::AttentionHead h = head(got);
        Reals log_sums(2 * h.queries), scratch(kernels::long_attention_scratch(h));
        kernels::long_attention(h, h, dropout, log_sums.data(), scratch.data());
        kernels::long_attention_backward(h, h, dropout, log_sums.data(), scratch.data());
        run_reference(head(expected), dropout);
        got.check("long attention", expected);
      }
}
