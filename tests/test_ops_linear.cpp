#define BOOST_TEST_MODULE ops_linear
#include "support/op_check.h"
#include "support/reference.h"

#include <seppo/autograd/blas.h>
#include <seppo/autograd/parallel.h>

using namespace test;
namespace ref = test::reference;

BOOST_AUTO_TEST_CASE(matmul) {
  const std::vector<std::vector<Shape>> cases = {{{2, 3}, {3, 4}},
                                                 {{1, 1}, {1, 1}},
                                                 {{5, 1}, {1, 6}},
                                                 {{0, 3}, {3, 4}},
                                                 {{3, 0}, {0, 4}},
                                                 {{2, 3}, {3, 0}},
                                                 {{2, 3, 4}, {4, 5}},
                                                 {{2, 3, 4}, {2, 4, 5}},
                                                 {{3, 4}, {2, 4, 5}},
                                                 {{1, 3, 4}, {2, 4, 5}},
                                                 {{2, 3, 4}, {1, 4, 5}},
                                                 {{2, 3, 4, 5}, {5, 6}},
                                                 {{2, 3, 4, 5}, {2, 3, 5, 2}},
                                                 {{2, 1, 4, 5}, {3, 5, 2}},
                                                 {{2, 1, 4, 5}, {1, 3, 5, 2}},
                                                 {{3, 4, 5}, {2, 1, 5, 2}},
                                                 {{0, 2, 3}, {0, 3, 2}},
                                                 {{17, 9}, {9, 18}}};
  for (const auto& shapes : cases)
    check_op(
        "matmul", shapes, [](Inputs x) { return seppo::matmul(x[0], x[1]); },
        [](const auto& x) { return ref::matmul(x[0], x[1]); });
  check_op(
      "matmul aliased", {{4, 4}}, [](Inputs x) { return seppo::matmul(x[0], x[0]); },
      [](const auto& x) { return ref::matmul(x[0], x[0]); });
  check_op(
      "matmul aliased", {{2, 3, 3}}, [](Inputs x) { return seppo::matmul(x[0], x[0]); },
      [](const auto& x) { return ref::matmul(x[0], x[0]); });
}

namespace {

// y = activation(x W^T + b)
template <class T>
Nd<T> linear_reference(const Arrays<T>& in, bool relu) {
  Nd<T> y = ref::matmul(in[0].rank() == 1 ? Nd<T>() : in[0], ref::permute(in[1], {1, 0}));
  if (in.size() > 2) y = ref::zip(y, in[2], [](auto a, auto b) { return a + b; });
  if (relu) y = ref::map(y, [](auto v) { return real_part(v) > 0 ? v : T(0); });
  return y;
}

template <class T>
Nd<T> gelu_of(const Nd<T>& x) {
  return ref::map(x, [](auto v) { return 0.5 * v * (1.0 + ref::erf(v / std::sqrt(2.0))); });
}

template <class T>
Arrays<T> with_gelu(Arrays<T> in) {
  in[0] = gelu_of(in[0]);
  return in;
}

}  // namespace

BOOST_AUTO_TEST_CASE(linear) {
  const std::vector<std::vector<Shape>> cases = {{{3, 4}, {5, 4}, {5}},       {{2, 3, 4}, {5, 4}, {5}},
                                                 {{1, 1}, {1, 1}, {1}},       {{0, 4}, {5, 4}, {5}},
                                                 {{2, 2, 3, 4}, {2, 4}, {2}}, {{9, 17}, {18, 17}, {18}}};
  for (auto shapes : cases) {
    check_op(
        "linear", shapes, [](Inputs x) { return seppo::linear(x[0], x[1], x[2]); },
        [](const auto& x) { return linear_reference(x, false); });
    check_op(
        "linear relu", shapes, [](Inputs x) { return seppo::linear(x[0], x[1], x[2], seppo::Activation::relu); },
        [](const auto& x) { return linear_reference(x, true); });
    check_op(
        "linear gelu", shapes, [](Inputs x) { return seppo::linear(x[0], x[1], x[2], seppo::Activation::gelu); },
        [](const auto& x) { return gelu_of(linear_reference(x, false)); });
    check_op(
        "gelu linear", shapes, [](Inputs x) { return seppo::gelu_linear(x[0], x[1], x[2]); },
        [](const auto& x) { return linear_reference(with_gelu(x), false); });
    shapes.pop_back();
    check_op(
        "gelu linear without bias", shapes, [](Inputs x) { return seppo::gelu_linear(x[0], x[1]); },
        [](const auto& x) { return linear_reference(with_gelu(x), false); });
    check_op(
        "linear without bias", shapes, [](Inputs x) { return seppo::linear(x[0], x[1]); },
        [](const auto& x) { return linear_reference(x, false); });
  }
  check_op(
      "linear aliased", {{4, 4}}, [](Inputs x) { return seppo::linear(x[0], x[0]); },
      [](const auto& x) {
        return ref::matmul(x[0], ref::permute(x[0], {1, 0}));
      });
  check_op(
      "gelu linear aliased", {{4, 4}}, [](Inputs x) { return seppo::gelu_linear(x[0], x[0]); },
      [](const auto& x) {
        return ref::matmul(with_gelu(x)[0], ref::permute(x[0], {1, 0}));
      });
}

namespace {

enum class Plus { nothing, c, row };

// C = op(A) op(B) + what is asked for, on padded matrices, against three loops. The gaps between rows must stay.
void check_gemm(seppo::Trans trans_a, seppo::Trans trans_b, std::size_t m, std::size_t n, std::size_t k, Plus plus) {
  constexpr std::size_t kGap = 3;
  const bool ta = trans_a == seppo::Trans::yes, tb = trans_b == seppo::Trans::yes;
  const std::size_t lda = (ta ? m : k) + kGap, ldb = (tb ? k : n) + kGap, ldc = n + kGap;
  seppo::RandomStream random(m + 100 * n + 10000 * k, seppo::Purpose::test);
  const auto draw = [&](std::size_t size) {
    std::vector<double> values(size);
    for (double& v : values) v = random.normal();
    return values;
  };
  const std::vector<double> a = draw((ta ? k : m) * lda), b = draw((tb ? n : k) * ldb), before = draw(m * ldc),
                            row = draw(n);
  std::vector<double> c = before;
  if (plus != Plus::c)  // may be uninitialised
    for (std::size_t i = 0; i < m; ++i) std::fill_n(c.begin() + static_cast<std::ptrdiff_t>(i * ldc), n, NAN);
  if (plus == Plus::row)
    seppo::gemm_plus_row(trans_a, trans_b, m, n, k, a.data(), lda, b.data(), ldb, row.data(), c.data(), ldc);
  else
    seppo::gemm(trans_a, trans_b, m, n, k, a.data(), lda, b.data(), ldb, plus == Plus::c, c.data(), ldc);
  double worst = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < ldc; ++j) {
      double expected = before[i * ldc + j];
      if (j < n) {
        if (plus != Plus::c) expected = plus == Plus::row ? row[j] : 0;
        for (std::size_t p = 0; p < k; ++p)
          expected += a[ta ? p * lda + i : i * lda + p] * b[tb ? j * ldb + p : p * ldb + j];
      }
      worst = std::max(worst, std::isnan(c[i * ldc + j]) ? 1 : std::abs(c[i * ldc + j] - expected));
    }
  BOOST_CHECK_MESSAGE(worst < 1e-11, "gemm " << m << "x" << n << "x" << k << (ta ? " T" : " N") << (tb ? "T" : "N")
                                             << " plus " << static_cast<int>(plus) << ": off by " << worst);
}

}  // namespace

// Sizes on both sides of every limit in blas.cpp and kernels/gemm.cpp: few rows, blocks, panels, OpenBLAS.
BOOST_AUTO_TEST_CASE(gemm_of_any_size) {
  using enum seppo::Trans;
  for (const auto trans_a : {no, yes})
    for (const auto trans_b : {no, yes}) {
      for (const Plus plus : {Plus::nothing, Plus::c, Plus::row}) {
        for (const std::size_t m : {1u, 3u, 4u, 5u, 7u, 12u, 65u})
          for (const std::size_t n : {1u, 2u, 16u, 19u, 33u})
            for (const std::size_t k : {1u, 5u, 16u}) check_gemm(trans_a, trans_b, m, n, k, plus);
        // few rows against many columns, and long sums: each has a loop of its own
        for (const std::size_t m : {1u, 2u, 3u, 4u, 6u})
          for (const std::size_t k : {24u, 37u, 100u, 129u, 300u}) check_gemm(trans_a, trans_b, m, 40, k, plus);
        check_gemm(trans_a, trans_b, 400, 70, 300, plus);
        check_gemm(trans_a, trans_b, 9, 600, 257, plus);
        if (plus == Plus::nothing) check_gemm(trans_a, trans_b, 66, 600, 450, plus);
      }
    }
  check_gemm(no, yes, 300, 530, 500, Plus::c);
  check_gemm(no, yes, 300, 530, 500, Plus::row);
}

BOOST_AUTO_TEST_CASE(large_products_are_the_same_for_any_number_of_threads) {
  const auto product = [](int threads, std::size_t m, std::size_t n, std::size_t k) {
    seppo::set_num_threads(threads);
    std::vector<double> a(m * k), b(n * k), c(m * n);
    seppo::RandomStream random(1, seppo::Purpose::test);
    for (auto* values : {&a, &b})
      for (double& v : *values) v = random.normal();
    seppo::gemm(seppo::Trans::no, seppo::Trans::yes, m, n, k, a.data(), k, b.data(), k, 0, c.data(), n);
    seppo::set_num_threads(1);
    return c;
  };
  for (const std::size_t m : {1u, 2u, 40u, 300u, 700u})
    for (const int threads : {2, 3}) BOOST_CHECK(product(1, m, 600, 500) == product(threads, m, 600, 500));
}
