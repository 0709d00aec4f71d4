// Which products OpenBLAS computes, observed by wrapping its functions at link time (-Wl,--wrap), and the kernels that
// it chooses for this processor.
// needs: engine: fast; libraries: seppo::openblas seppo::highway
#include <seppo/autograd/blas/multiply.h>
#include <seppo/autograd/core/parallel.h>

#include <cblas.h>
#include <hwy/targets.h>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::atomic<int> calls = 0, most_threads = 0;

}  // namespace

extern "C" {
void gotoblas_dynamic_init();
void gotoblas_dynamic_quit();
decltype(cblas_sgemm) __real_cblas_sgemm, __wrap_cblas_sgemm;

void __wrap_cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, blasint m, blasint n,
                        blasint k, float alpha, const float* a, blasint lda, const float* b, blasint ldb, float beta,
                        float* c, blasint ldc) {
  ++calls;
  if (openblas_get_num_threads() > 1) most_threads = openblas_get_num_threads();
  __real_cblas_sgemm(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
}

namespace {

enum class Stored { as_is, transposed };

seppo::MatrixView operand(const std::vector<float>& x, std::size_t rows, std::size_t cols, Stored stored) {
  if (stored == Stored::as_is) return {x.data(), rows, cols};
  return seppo::transposed({x.data(), cols, rows});
}

// The number of OpenBLAS calls, one per piece, for a product of matrices of ones; also checks its elements.
int calls_for(std::size_t m, std::size_t n, std::size_t k, Stored stored_a, Stored stored_b, bool in_task = true) {
  const std::vector<float> a(m * k, 1), b(k * n, 1);
  std::vector<float> c(m * n, 2);
  const auto multiply = [&](std::size_t task) {
    if (task == 0)
      seppo::multiply({c.data(), m, n}, operand(a, m, k, stored_a), operand(b, k, n, stored_b), seppo::Accumulate::yes);
  };
  calls = 0;
  in_task ? seppo::run_tasks(2, multiply) : multiply(0);
  BOOST_CHECK(c == std::vector<float>(m * n, static_cast<float>(k + 2)));
  return calls;
}

}  // namespace

// This case must come first, as kernels are chosen only once.
BOOST_AUTO_TEST_CASE(kernels_of_an_older_processor_are_replaced_unless_the_user_chose_them) {
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  const char* const users = std::getenv(kVariable);
  if (!users) {  // as OpenBLAS does on processors that it does not know
    setenv(kVariable, "Prescott", 1);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv(kVariable);
  }
  const std::string before = openblas_get_corename();
  BOOST_CHECK_EQUAL(calls_for(300, 22000, 48, Stored::as_is, Stored::as_is), 16);
  const std::string after = openblas_get_corename();
  BOOST_TEST_MESSAGE(before << " -> " << after);
  const bool has_avx2 = (hwy::SupportedTargets() & HWY_AVX2) != 0;
  BOOST_CHECK_EQUAL(after != before, has_avx2 && !users);
  BOOST_CHECK_EQUAL(std::getenv(kVariable) != nullptr, users != nullptr);
}

// AMX takes no part, as it requires at least 64 rows, columns and terms.
BOOST_AUTO_TEST_CASE(openblas_computes_large_products) {
  using enum Stored;
  for (const auto a : {as_is, transposed})
    for (const auto b : {as_is, transposed}) BOOST_CHECK_EQUAL(calls_for(300, 22000, 48, a, b), 16);
  // Each piece is a sixteenth of the longer side, or 128 lines, both within tasks and outside.
  BOOST_CHECK_EQUAL(calls_for(300, 22000, 48, as_is, transposed, false), 16);
  for (const bool in_task : {false, true}) BOOST_CHECK_EQUAL(calls_for(300, 48, 22000, transposed, as_is, in_task), 3);
}

// The program may use OpenBLAS itself.
BOOST_AUTO_TEST_CASE(the_programs_number_of_threads_is_left) {
  const int before = openblas_get_num_threads();
  seppo::set_num_threads(3);
  for (const int threads : {1, 3}) {
    openblas_set_num_threads(threads);
    most_threads = 0;
    for (const bool in_task : {false, true})
      BOOST_CHECK_GT(calls_for(300, 22000, 48, Stored::as_is, Stored::as_is, in_task), 0);
    BOOST_CHECK_EQUAL(openblas_get_num_threads(), threads);
    BOOST_CHECK_EQUAL(most_threads, 0);
  }
  seppo::set_num_threads(1);
  openblas_set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(openblas_does_not_compute_small_products_nor_those_of_few_rows) {
  using enum Stored;
  for (const auto a : {as_is, transposed})
    for (const auto b : {as_is, transposed}) BOOST_CHECK_EQUAL(calls_for(144, 96, 32, a, b), 0);
  for (const std::size_t m : {1u, 4u, 5u, 32u, 64u}) BOOST_CHECK_EQUAL(calls_for(m, 22000, 48, as_is, transposed), 0);
}
