// RMS norm and batch norm. Layer norm is in test_ops_rows.cpp, with what is added before and after it.
// needs: precision: double single; simd: avx2 plain
#define BOOST_TEST_MODULE ops_norms
#include "support/op_check.h"
#include "support/reference.h"

using namespace test;
namespace ref = test::reference;

BOOST_AUTO_TEST_CASE(rms_norm) {
  for (const Shape& shape : {Shape{4}, Shape{3, 5}, Shape{2, 3, 4}, Shape{2, 1, 3, 17}, Shape{0, 4}, Shape{2, 1}})
    check_op(
        "rms_norm", {shape, {shape[-1]}}, [](Inputs x) { return seppo::rms_norm(x[0], x[1], 0.01); },
        [](const auto& x) {
          return ref::along(x[0], -1, [&](auto& row) {
            auto squares = row[0] * 0.0;
            for (const auto& e : row) squares += e * e / static_cast<double>(row.size());
            for (std::size_t j = 0; j < row.size(); ++j) row[j] = row[j] / std::sqrt(squares + 0.01) * x[1].v[j];
          });
        });
}

namespace {

// Normalises the columns of x [rows, n] with their own or given statistics.
template <class T>
Nd<T> normalise_columns(const Arrays<T>& x, double eps, const std::vector<double>* mean,
                        const std::vector<double>* var) {
  const auto n = static_cast<std::size_t>(x[0].size(-1));
  const std::size_t rows = x[0].v.size() / n;
  Nd<T> y = x[0];
  for (std::size_t j = 0; j < n; ++j) {
    T m = 0, v = 0;
    for (std::size_t i = 0; i < rows; ++i) m += x[0].v[i * n + j] / static_cast<double>(rows);
    if (mean) m = (*mean)[j];
    for (std::size_t i = 0; i < rows; ++i)
      v += (x[0].v[i * n + j] - m) * (x[0].v[i * n + j] - m) / static_cast<double>(rows);
    if (var) v = (*var)[j];
    for (std::size_t i = 0; i < rows; ++i)
      y.v[i * n + j] = (x[0].v[i * n + j] - m) / std::sqrt(v + eps) * x[1].v[j] + x[2].v[j];
  }
  return y;
}

}  // namespace

// Each call gets fresh running statistics, so that all calls start from the same ones.
BOOST_AUTO_TEST_CASE(batch_norm) {
  for (const Shape& shape : {Shape{5, 3}, Shape{2, 3, 4}, Shape{2, 2, 2, 1}}) {
    const int n = shape[-1];
    std::vector<double> mean, var;
    for (int j = 0; j < n; ++j) mean.push_back(0.1 * j), var.push_back(1 + 0.5 * j);
    for (const bool running : {false, true})
      for (const double momentum : {0.0, 0.1}) {
        const auto op = [&](Inputs x) {
          return seppo::batch_norm(x[0], x[1], x[2], seppo::tensor({n}, reals(mean)), seppo::tensor({n}, reals(var)),
                                   {.momentum = momentum, .eps = 0.01, .use_running_statistics = running});
        };
        const auto reference = [&](const auto& x) {
          return normalise_columns(x, 0.01, running ? &mean : nullptr, running ? &var : nullptr);
        };
        check_op("batch_norm", {shape, {n}, {n}}, op, reference, {.in_eval_mode = running});
      }
  }
}

BOOST_AUTO_TEST_CASE(batch_norm_keeps_running_statistics) {
  seppo::tape().clear();
  const Tensor mean = seppo::tensor({2}, {1, 1}), var = seppo::tensor({2}, {2, 2});
  const Tensor x = seppo::tensor({3, 2}, {1, 10, 2, 20, 6, 30});  // means 3 and 20, unbiased variances 7 and 100
  const Tensor one = seppo::ones({2}), zero = seppo::zeros({2});
  seppo::batch_norm(x, one, zero, mean, var, {.momentum = 0.25});
  BOOST_CHECK_CLOSE(double{mean.values()[0]}, 0.75 * 1 + 0.25 * 3, within(1e-12));
  BOOST_CHECK_CLOSE(double{mean.values()[1]}, 0.75 * 1 + 0.25 * 20, within(1e-12));
  BOOST_CHECK_CLOSE(double{var.values()[0]}, 0.75 * 2 + 0.25 * 7, within(1e-12));
  BOOST_CHECK_CLOSE(double{var.values()[1]}, 0.75 * 2 + 0.25 * 100, within(1e-12));
  const seppo::UseMode eval(seppo::Mode::eval);
  const std::vector<real> before(mean.values().begin(), mean.values().end());
  const Tensor y = seppo::batch_norm(x, one, zero, mean, var);
  BOOST_CHECK(std::equal(before.begin(), before.end(), mean.values().begin()));
  BOOST_CHECK_CLOSE(double{y.values()[0]}, (1 - double{before[0]}) / std::sqrt(double{var.values()[0]} + 1e-5),
                    within(1e-10));
}
