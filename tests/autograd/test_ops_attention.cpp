// attention() against a naive reference: masks, ragged batches, dropout, long and short sequences.
// needs: precision: double single; simd: avx2 plain
#include "support/memcheck.h"
#include "support/op_check.h"
#include "support/reference.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/tools/attention_recorder.h>

using namespace test;
namespace ref = test::reference;

namespace {

// All sequences and heads of a ragged batch; allowed(sequence, query, key).
template <class T, class F>
Nd<T> attention_reference(const Nd<T>& q, const Nd<T>& k, const Nd<T>& v, int heads, const std::vector<int>& qo,
                          const std::vector<int>& ko, const F& allowed) {
  Nd<T> out(q.shape);
  const int width = q.size(1) / heads;
  for (std::size_t s = 0; s + 1 < qo.size(); ++s)
    for (int h = 0; h < heads; ++h)
      ref::attention(out, q, k, v, qo[s], qo[s + 1], ko[s], ko[s + 1], h * width, width,
                     [&](int i, int j) { return allowed(static_cast<int>(s), i, j); });
  return out;
}

const std::vector<int> kQueries{0, 3, 3, 4, 9}, kKeys{0, 2, 4, 9, 12};  // ragged; one sequence has no queries
const std::vector<int> kLengths{2, 1, 0, 3};

int queries(int s) { return kQueries[static_cast<std::size_t>(s) + 1] - kQueries[static_cast<std::size_t>(s)]; }
int keys(int s) { return kKeys[static_cast<std::size_t>(s) + 1] - kKeys[static_cast<std::size_t>(s)]; }
bool causal(int s, int i, int j) { return j <= i + keys(s) - queries(s); }

template <class F>
void check_mask(const std::string& name, const seppo::Mask& mask, const F& allowed) {
  for (const int heads : {1, 2, 3})
    check_op(
        "attention " + name, {{9, 6}, {12, 6}, {12, 6}},
        [&](Inputs x) { return seppo::attention(x[0], x[1], x[2], heads, kQueries, kKeys, {mask}); },
        [&](const auto& x) { return attention_reference(x[0], x[1], x[2], heads, kQueries, kKeys, allowed); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(unmasked) {
  check_mask("none", seppo::Mask::none(), [](int, int, int) { return true; });
}
BOOST_AUTO_TEST_CASE(causal_mask) { check_mask("causal", seppo::Mask::causal(), causal); }
BOOST_AUTO_TEST_CASE(valid_lengths) {
  check_mask("lengths", seppo::Mask::valid_lengths(kLengths),
             [](int s, int, int j) { return j < kLengths[static_cast<std::size_t>(s)]; });
  check_mask("causal lengths", seppo::Mask::causal_valid_lengths(kLengths),
             [](int s, int i, int j) { return j < kLengths[static_cast<std::size_t>(s)] && causal(s, i, j); });
}
BOOST_AUTO_TEST_CASE(explicit_mask) {
  std::vector<std::uint8_t> pairs;
  std::vector<std::size_t> first;
  seppo::RandomStream random(3, seppo::Purpose::test);
  for (int s = 0; s < 4; ++s) {
    first.push_back(pairs.size());
    for (int i = 0; i < queries(s) * keys(s); ++i) pairs.push_back(random.below(2) ? 1 : 0);
  }
  std::fill_n(pairs.begin(), 2, std::uint8_t{0});  // the first query may attend to nothing
  check_mask("pairs", seppo::Mask::allowed(pairs), [&](int s, int i, int j) {
    return pairs[first[static_cast<std::size_t>(s)] + static_cast<std::size_t>(i * keys(s) + j)] != 0;
  });
}

// Self-attention with each of the 16 masks over four keys, one per sequence.
BOOST_AUTO_TEST_CASE(every_mask_pattern) {
  std::vector<int> offsets{0};
  std::vector<std::uint8_t> pairs;
  for (int pattern = 0; pattern < 16; ++pattern) {
    offsets.push_back(offsets.back() + 4);
    for (int i = 0; i < 16; ++i) pairs.push_back(static_cast<std::uint8_t>(pattern >> (i % 4) & 1));
  }
  seppo::tape().clear();
  std::vector<double> values;
  seppo::RandomStream random(4, seppo::Purpose::test);
  for (int i = 0; i < 64 * 4; ++i) values.push_back(random.normal());
  const Tensor x = seppo::variable({64, 4}, reals(values));
  seppo::AttentionRecorder recorder;
  const seppo::Observe scope(recorder);
  const Tensor y = seppo::attention(x, x, x, 2, offsets, offsets, {.mask = seppo::Mask::allowed(pairs)});
  const seppo::AttentionMap& weights = recorder.maps.at(0);
  BOOST_CHECK(weights.shape == (Shape{16, 2, 4, 4}));
  for (std::size_t row = 0; row < 16 * 2 * 4; ++row) {
    const std::size_t pattern = row / 8;
    double total = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const double w = double{weights.weights[row * 4 + j]};
      BOOST_CHECK((pattern >> j & 1) ? w > 0 : w == 0);
      total += w;
    }
    BOOST_CHECK(pattern == 0 ? total == 0 : std::abs(total - 1) < within(1e-12));
  }
  seppo::tape().backward(y, reals(values));
  for (std::size_t i = 0; i < 16; ++i) {  // the sequence that may attend to nothing
    BOOST_CHECK_EQUAL(y.values()[i], 0);
    BOOST_CHECK_EQUAL(x.grad()[i], 0);
  }
  seppo::tape().clear();
}

// In every kernel, for short and long sequences, whether masked by lengths, by the diagonal or by pairs.
BOOST_AUTO_TEST_CASE(queries_without_keys_give_exact_zeros) {
  seppo::RandomStream random(5, seppo::Purpose::test);
  for (const int n : {4, 40, 300})
    for (const int kind : {0, 1, 2}) {
      const int keys = kind == 1 ? n / 2 : n, blind = kind == 1 ? n - keys : n;  // in the first sequence
      const std::vector<int> q_rows{0, n, 2 * n}, k_rows{0, keys, keys + n}, lengths{0, n};
      std::vector<std::uint8_t> pairs(static_cast<std::size_t>(2 * n * n), 1);
      std::fill_n(pairs.begin(), n * n, std::uint8_t{0});
      const seppo::Mask mask = kind == 0   ? seppo::Mask::valid_lengths(lengths)
                               : kind == 1 ? seppo::Mask::causal()
                                           : seppo::Mask::allowed(pairs);
      for (const double dropout : {0.0, 0.5}) {
        seppo::tape().clear();
        soil(seppo::tape());
        const auto draw = [&](int rows) {
          const Tensor x = seppo::randn({rows, 16}, random);
          return seppo::variable(x.shape(), x.values());
        };
        const Tensor q = draw(2 * n), k = draw(keys + n), v = draw(keys + n);
        const Tensor y = seppo::attention(q, k, v, 4, q_rows, k_rows, {.mask = mask, .dropout = dropout});
        const Tensor dy = seppo::randn(y.shape(), random);
        seppo::tape().backward(y, dy.values());
        const auto zeros = [](std::span<const real> x, int rows) {
          return std::ranges::count(x.first(static_cast<std::size_t>(rows) * 16), real{0}) == 16 * rows;
        };
        BOOST_CHECK_MESSAGE(zeros(y.values(), blind) && zeros(q.grad(), blind), n << " rows, mask " << kind);
        if (kind != 1) BOOST_CHECK_MESSAGE(zeros(k.grad(), n) && zeros(v.grad(), n), n << " rows, mask " << kind);
        BOOST_CHECK(!zeros(y.values(), 2 * n) && !zeros(v.grad(), keys + n));
        for (const Tensor& x : {y, q, k, v})
          for (const real value : x.node().grad ? std::span<const real>(x.grad()) : x.values())
            BOOST_REQUIRE(std::isfinite(value));
      }
    }
  seppo::tape().clear();
}

BOOST_AUTO_TEST_CASE(columns_of_one_stacked_projection) {
  const std::vector<int> offsets{0, 4, 5, 9};
  check_op(
      "attention stacked", {{9, 12}},
      [&](Inputs x) {
        return seppo::attention({x[0], 0, 4}, {x[0], 4, 4}, {x[0], 8, 4}, 2, offsets, offsets);
      },
      [&](const auto& x) {
        auto part = [&](int first) {
          auto y = x[0];
          y = std::decay_t<decltype(y)>({9, 4});
          for (int i = 0; i < 9; ++i)
            for (int c = 0; c < 4; ++c) y({i, c}) = x[0]({i, first + c});
          return y;
        };
        return attention_reference(part(0), part(4), part(8), 2, offsets, offsets, [](int, int, int) { return true; });
      });
}

namespace {

Nd<double> normal_values(std::vector<int> shape, std::uint64_t seed) {
  seppo::RandomStream random(seed, seppo::Purpose::test);
  Nd<double> x(std::move(shape));
  for (double& v : x.v) v = rounded(random.normal());
  return x;
}

// Runs backward from `y` and checks every stride-th derivative against the complex step.
template <class F>
void check_some_derivatives(const Tensor& y, const std::vector<Tensor>& x, const Arrays<double>& in, const F& reference,
                            std::size_t stride) {
  if (is_in_memcheck()) stride *= 20;  // the time is that of the reference
  const Nd<double> c = normal_values(reference(in).shape, 4);
  seppo::tape().backward(y, reals(c.v));
  for (std::size_t input = 0; input < in.size(); ++input)
    for (std::size_t element = input; element < in[input].v.size(); element += stride) {
      Arrays<Complex> z;
      for (const auto& a : in) {
        z.emplace_back(a.shape);
        std::copy(a.v.begin(), a.v.end(), z.back().v.begin());
      }
      z[input].v[element] += Complex(0, 1e-30);
      const auto out = reference(z);
      double g = 0;
      for (std::size_t j = 0; j < out.v.size(); ++j) g += c.v[j] * out.v[j].imag() / 1e-30;
      BOOST_CHECK_SMALL(double{x[input].grad()[element]} - g, within(1e-12));
    }
}

int at(const std::vector<int>& offsets, int s) { return offsets[static_cast<std::size_t>(s)]; }

// Two sequences that end within tiles of queries and keys, two heads; checks a sample of the derivatives.
template <class F>
void check_long(const std::string& name, const seppo::AttentionOptions& options, const F& factor, int width = 8,
                int keys = 150) {
  const int d = 2 * width;
  const std::vector<int> qo{0, 70, 73}, ko{0, keys, 2 * keys};
  const Arrays<double> in{normal_values({73, d}, 1), normal_values({2 * keys, d}, 2), normal_values({2 * keys, d}, 3)};
  // weights times factor(sequence, head, query, key): the mask, or the factor that dropout applies
  const auto reference = [&](const auto& x) {
    using T = typename std::decay_t<decltype(x[0].v)>::value_type;
    Nd<T> out({73, d});
    for (int s = 0; s < 2; ++s)
      for (int h = 0; h < 2; ++h)
        for (int i = at(qo, s); i < at(qo, s + 1); ++i) {
          std::vector<T> p;
          for (int j = at(ko, s); j < at(ko, s + 1); ++j) {
            T dot = 0;
            for (int c = width * h; c < width * (h + 1); ++c) dot += x[0]({i, c}) * x[1]({j, c});
            p.push_back(dot / std::sqrt(static_cast<double>(width)));
          }
          const auto weight = [&](std::size_t j) { return factor(s, h, i - at(qo, s), static_cast<int>(j)); };
          ref::softmax_allowed(p, [&](std::size_t j) { return weight(j) >= 0; });
          for (int c = width * h; c < width * (h + 1); ++c)
            for (std::size_t j = 0; j < p.size(); ++j)
              if (weight(j) > 0) out({i, c}) += weight(j) * p[j] * x[2]({at(ko, s) + static_cast<int>(j), c});
        }
    return out;
  };
  seppo::Tape& t = seppo::tape();
  t.clear();
  t.random = {1, 2, 3, 4};
  std::vector<Tensor> x;
  for (const auto& a : in) x.push_back(seppo::variable({a.size(0), d}, reals(a.v)));
  const Tensor y = seppo::attention(x[0], x[1], x[2], 2, qo, ko, options);
  check_close(y.values(), reference(in).v, 1e-12, name);
  check_some_derivatives(y, x, in, reference, kIsDouble ? 211 : 1511);
  t.clear();
}

}  // namespace

// factor < 0: the key may not be attended to.
BOOST_AUTO_TEST_CASE(long_sequences) {
  for (const int width : {8, 20})  // 20 is no multiple of 8 or 16 lanes
    check_long(
        "long", {}, [](int, int, int, int) { return 1.0; }, width);
  check_long("long causal", {seppo::Mask::causal()},
             [](int s, int, int i, int j) { return j <= i + 150 - (s == 0 ? 70 : 3) ? 1.0 : -1.0; });
  // 30 of the 70 queries see no key.
  check_long(
      "long causal, few keys", {seppo::Mask::causal()},
      [](int s, int, int i, int j) { return j <= i + 40 - (s == 0 ? 70 : 3) ? 1.0 : -1.0; }, 8, 40);
  const std::vector<int> lengths{129, 0};
  check_long("long lengths", {seppo::Mask::valid_lengths(lengths)},
             [&](int s, int, int, int j) { return j < lengths[static_cast<std::size_t>(s)] ? 1.0 : -1.0; });
  std::vector<std::uint8_t> pairs(73 * 150);
  seppo::RandomStream random(3, seppo::Purpose::test);
  for (auto& allowed : pairs) allowed = random.below(2) ? 1 : 0;
  std::fill_n(pairs.begin() + 150, 140, std::uint8_t{0});  // nothing in the first tile
  check_long("long pairs", {seppo::Mask::allowed(pairs)}, [&](int s, int, int i, int j) {
    return pairs[static_cast<std::size_t>((70 * s + i) * 150 + j)] ? 1.0 : -1.0;
  });
}

// Each weight has 16 random bits of its own, as ops.h and kernels.h document: the bits of a row are those
// of dropout() over rows padded to whole groups of 128.
BOOST_AUTO_TEST_CASE(dropout_of_the_weights) {
  const double p = 0.25;
  const auto factors = [&](int s) {  // [head, query, 2 groups of 128 keys]
    const int queries = s == 0 ? 70 : 3;
    seppo::Tape t;
    const seppo::UseTape use(t);
    t.random = {1, 2, 3 + static_cast<std::uint32_t>(s), 4};
    const Tensor y = seppo::dropout(seppo::full({2, queries, 256}, 1), p);
    return std::vector<double>(y.values().begin(), y.values().end());
  };
  const std::vector<double> drop[2] = {factors(0), factors(1)};
  BOOST_CHECK(std::count(drop[0].begin(), drop[0].end(), 0.0) > 5000);
  check_long("weight dropout", {.dropout = p}, [&](int s, int h, int i, int j) {
    return drop[s][static_cast<std::size_t>((h * (s == 0 ? 70 : 3) + i) * 256 + j)];
  });
}

BOOST_AUTO_TEST_CASE(dropout_of_the_weights_is_off_in_eval_mode) {
  const Nd<double> x = normal_values({5, 4}, 1);
  const std::vector<int> offsets{0, 5};
  seppo::tape().clear();
  const Tensor a = seppo::tensor({5, 4}, reals(x.v));
  const seppo::UseMode eval(seppo::Mode::eval);
  const Tensor y = seppo::attention(a, a, a, 2, offsets, offsets, {.dropout = 0.5});
  const Tensor z = seppo::attention(a, a, a, 2, offsets, offsets);
  check_close(y.values(), {z.values().begin(), z.values().end()}, 1e-15, "eval");
}

namespace {

// Sequences of unequal lengths; widths with and without quads of columns.
void check_many(int sequences, std::size_t stride) {
  std::vector<int> qo{0}, ko{0};
  for (int s = 0; s < sequences; ++s) {
    qo.push_back(qo.back() + 1 + s % 4);
    ko.push_back(ko.back() + 2 + s % 3);
  }
  for (const int width : {3, 4, 8})
    for (const bool is_causal : {false, true}) {
      const Arrays<double> in{normal_values({qo.back(), 2 * width}, 1), normal_values({ko.back(), 2 * width}, 2),
                              normal_values({ko.back(), 2 * width}, 3)};
      seppo::tape().clear();
      std::vector<Tensor> x;
      for (const auto& a : in) x.push_back(seppo::variable({a.size(0), a.size(1)}, reals(a.v)));
      const Tensor y =
          seppo::attention(x[0], x[1], x[2], 2, qo, ko, {is_causal ? seppo::Mask::causal() : seppo::Mask::none()});
      const auto reference = [&](const auto& z) {
        return attention_reference(z[0], z[1], z[2], 2, qo, ko, [&](int s, int i, int j) {
          return !is_causal || j <= i + at(ko, s + 1) - at(ko, s) - at(qo, s + 1) + at(qo, s);
        });
      };
      check_close(y.values(), reference(in).v, 1e-12, "many short");
      check_some_derivatives(y, x, in, reference, stride);
    }
  seppo::tape().clear();
}

}  // namespace

// More (sequence, head) pairs than fit into one group.
BOOST_AUTO_TEST_CASE(many_short_sequences) { check_many(11, 7); }
// Too many for Q, K and V to be kept for backward in the kernel's layout.
BOOST_AUTO_TEST_CASE(very_many_short_sequences) { check_many(300, 401); }

BOOST_AUTO_TEST_CASE(rectangular_batches) {
  check_op(
      "attention 3-D", {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}},
      [](Inputs x) { return seppo::attention(x[0], x[1], x[2], 2, {seppo::Mask::causal()}); },
      [](const auto& x) {
        auto rows = [](auto a) {
          a.shape = {a.size(0) * a.size(1), a.size(2)};
          return a;
        };
        auto y = attention_reference(rows(x[0]), rows(x[1]), rows(x[2]), 2, {0, 3, 6}, {0, 5, 10},
                                     [](int, int i, int j) { return j <= i + 2; });
        y.shape = {2, 3, 4};
        return y;
      });
}

BOOST_AUTO_TEST_CASE(a_batch_of_no_sequences_has_gradients) {
  seppo::tape().clear();
  const std::vector<int> none{0};
  const Tensor q = seppo::variable({0, 6}, {}), kv = seppo::variable({0, 4}, {});
  const Tensor y = seppo::attention(q, {kv, 0, 2}, {kv, 2, 2}, 3, none, none);
  BOOST_CHECK(y.shape() == (Shape{0, 6}));
  seppo::backward(seppo::sum(y));
  BOOST_CHECK(q.grad().empty() && kv.grad().empty());
}

// Padding with keys that may not be attended to changes nothing, whatever their values.
BOOST_AUTO_TEST_CASE(padded_batches_equal_ragged_ones) {
  const std::vector<int> lengths{2, 4}, ragged{0, 2, 6}, queries{0, 3, 6};
  seppo::RandomStream random(6, seppo::Purpose::test);
  const auto draw = [&](std::size_t n) {
    std::vector<real> v;
    for (std::size_t i = 0; i < n; ++i) v.push_back(static_cast<real>(random.normal()));
    return v;
  };
  const std::vector<real> q = draw(6 * 4), k = draw(6 * 4), v = draw(6 * 4), cotangent = draw(6 * 4);
  const auto padded = [](const std::vector<real>& rows) {  // 2 sequences of 4 rows, of which the first uses 2
    std::vector<real> out(rows.begin(), rows.begin() + 8);
    out.insert(out.end(), 8, real{1e6});
    out.insert(out.end(), rows.begin() + 8, rows.end());
    return out;
  };
  seppo::tape().clear();
  const Tensor rq = seppo::variable({6, 4}, q), rk = seppo::variable({6, 4}, k), rv = seppo::variable({6, 4}, v);
  const Tensor a = seppo::attention(rq, rk, rv, 2, queries, ragged);
  const Tensor pq = seppo::variable({2, 3, 4}, q), pk = seppo::variable({2, 4, 4}, padded(k)),
               pv = seppo::variable({2, 4, 4}, padded(v));
  const Tensor b = seppo::attention(pq, pk, pv, 2, {seppo::Mask::valid_lengths(lengths)});
  check_close(b.values(), {a.values().begin(), a.values().end()}, 1e-12, "padded");
  seppo::tape().backward(a, cotangent);
  seppo::tape().backward(b, cotangent);
  check_close(pq.grad(), {rq.grad().begin(), rq.grad().end()}, 1e-12, "padded dq");
  for (const auto& [dense, sparse] : {std::pair{rk, pk}, std::pair{rv, pv}})
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t c = 0; c < 4; ++c) {
        const real g = sparse.grad()[row * 4 + c];
        const bool padding = row == 2 || row == 3;
        BOOST_CHECK_SMALL(double{g - (padding ? 0 : dense.grad()[(row < 2 ? row : row - 2) * 4 + c])}, within(1e-12));
        if (padding) BOOST_CHECK_EQUAL(g, 0);
      }
  seppo::tape().clear();
}
