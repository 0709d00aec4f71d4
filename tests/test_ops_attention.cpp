#define BOOST_TEST_MODULE ops_attention
#include "support/op_check.h"
#include "support/reference.h"

using namespace test;
namespace ref = test::reference;

namespace {

// All sequences and heads of a ragged batch; allowed(sequence, query, key).
template <class T, class F>
Nd<T> attention_reference(const Nd<T>& q, const Nd<T>& k, const Nd<T>& v, int heads, const std::vector<int>& qo,
                          const std::vector<int>& ko, const F& allowed) {
  Nd<T> out(q.shape);
  const int width = q.dim(1) / heads;
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
        [&](Inputs x) { return seppo::attention(x[0], x[1], x[2], heads, kQueries, kKeys, mask); },
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
  std::fill_n(pairs.begin(), 2, std::uint8_t{0});  // the first query may attend nothing
  check_mask("pairs", seppo::Mask::allowed(pairs), [&](int s, int i, int j) {
    return pairs[first[static_cast<std::size_t>(s)] + static_cast<std::size_t>(i * keys(s) + j)] != 0;
  });
}

// Every mask of a query over four keys, for every query of a small batch, self-attention.
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
  const Tensor x = seppo::variable({64, 4}, values);
  Tensor weights;
  const Tensor y = seppo::attention(x, x, x, 2, offsets, offsets, seppo::Mask::allowed(pairs), &weights);
  BOOST_CHECK(weights.shape() == (Shape{16, 2, 4, 4}));
  for (std::size_t row = 0; row < weights.rows(); ++row) {
    const std::size_t pattern = row / 8;
    double total = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const double w = weights.values()[row * 4 + j];
      BOOST_CHECK((pattern >> j & 1) ? w > 0 : w == 0);
      total += w;
    }
    BOOST_CHECK(pattern == 0 ? total == 0 : std::abs(total - 1) < 1e-12);
  }
  seppo::tape().backward(y, values);
  for (std::size_t i = 0; i < 16; ++i) {  // the sequence that may attend nothing
    BOOST_CHECK_EQUAL(y.values()[i], 0);
    BOOST_CHECK_EQUAL(x.gradient()[i], 0);
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

// Large enough for the path that calls BLAS.
BOOST_AUTO_TEST_CASE(long_sequences) {
  const std::vector<int> offsets{0, 70};
  const auto make = [](std::uint64_t seed) {
    seppo::RandomStream random(seed, seppo::Purpose::test);
    Nd<double> x({70, 32});
    for (double& v : x.v) v = random.normal();
    return x;
  };
  const Arrays<double> in{make(1), make(2), make(3)};
  seppo::tape().clear();
  std::vector<Tensor> x;
  for (const auto& a : in) x.push_back(seppo::variable({70, 32}, a.v));
  const Tensor y = seppo::attention(x[0], x[1], x[2], 1, offsets, offsets, seppo::Mask::causal());
  const auto expected =
      attention_reference(in[0], in[1], in[2], 1, offsets, offsets, [](int, int i, int j) { return j <= i; });
  check_close(y.values(), expected.v, 1e-12, "long attention");
  // One derivative of each input by complex step.
  const Nd<double> c = make(4);
  seppo::tape().backward(y, c.v);
  for (std::size_t input = 0; input < 3; ++input)
    for (const std::size_t element : {std::size_t{5}, std::size_t{1000}, std::size_t{2239}}) {
      Arrays<Complex> z;
      for (const auto& a : in) {
        z.emplace_back(a.shape);
        std::copy(a.v.begin(), a.v.end(), z.back().v.begin());
      }
      z[input].v[element] += Complex(0, 1e-30);
      const auto out =
          attention_reference(z[0], z[1], z[2], 1, offsets, offsets, [](int, int i, int j) { return j <= i; });
      double g = 0;
      for (std::size_t j = 0; j < out.v.size(); ++j) g += c.v[j] * out.v[j].imag() / 1e-30;
      BOOST_CHECK_SMALL(x[input].gradient()[element] - g, 1e-12);
    }
  seppo::tape().clear();
}

BOOST_AUTO_TEST_CASE(rectangular_batches) {
  check_op(
      "attention 3-D", {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}},
      [](Inputs x) { return seppo::attention(x[0], x[1], x[2], 2, seppo::Mask::causal()); },
      [](const auto& x) {
        auto rows = [](auto a) {
          a.shape = {a.dim(0) * a.dim(1), a.dim(2)};
          return a;
        };
        auto y = attention_reference(rows(x[0]), rows(x[1]), rows(x[2]), 2, {0, 3, 6}, {0, 5, 10},
                                     [](int, int i, int j) { return j <= i + 2; });
        y.shape = {2, 3, 4};
        return y;
      });
}

// Padding keys that may not be attended changes nothing, whatever they hold.
BOOST_AUTO_TEST_CASE(padded_batches_equal_ragged_ones) {
  const std::vector<int> lengths{2, 4}, ragged{0, 2, 6}, queries{0, 3, 6};
  seppo::RandomStream random(6, seppo::Purpose::test);
  const auto draw = [&](std::size_t n) {
    std::vector<double> v;
    for (std::size_t i = 0; i < n; ++i) v.push_back(random.normal());
    return v;
  };
  const std::vector<double> q = draw(6 * 4), k = draw(6 * 4), v = draw(6 * 4), cotangent = draw(6 * 4);
  const auto padded = [](const std::vector<double>& rows) {  // 2 sequences of 4, the first 2 rows long
    std::vector<double> out(rows.begin(), rows.begin() + 8);
    out.insert(out.end(), 8, 1e6);
    out.insert(out.end(), rows.begin() + 8, rows.end());
    return out;
  };
  seppo::tape().clear();
  const Tensor rq = seppo::variable({6, 4}, q), rk = seppo::variable({6, 4}, k), rv = seppo::variable({6, 4}, v);
  const Tensor a = seppo::attention(rq, rk, rv, 2, queries, ragged);
  const Tensor pq = seppo::variable({2, 3, 4}, q), pk = seppo::variable({2, 4, 4}, padded(k)),
               pv = seppo::variable({2, 4, 4}, padded(v));
  const Tensor b = seppo::attention(pq, pk, pv, 2, seppo::Mask::valid_lengths(lengths));
  check_close(b.values(), {a.values().begin(), a.values().end()}, 1e-12, "padded");
  seppo::tape().backward(a, cotangent);
  seppo::tape().backward(b, cotangent);
  check_close(pq.gradient(), {rq.gradient().begin(), rq.gradient().end()}, 1e-12, "padded dq");
  for (const auto& [dense, sparse] : {std::pair{rk, pk}, std::pair{rv, pv}})
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t c = 0; c < 4; ++c) {
        const double g = sparse.gradient()[row * 4 + c];
        const bool padding = row == 2 || row == 3;
        BOOST_CHECK_SMALL(g - (padding ? 0 : dense.gradient()[(row < 2 ? row : row - 2) * 4 + c]), 1e-12);
        if (padding) BOOST_CHECK_EQUAL(g, 0);
      }
  seppo::tape().clear();
}
