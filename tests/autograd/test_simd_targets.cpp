// How a test is made to use fewer instructions than the processor has (support/simd_targets.cpp).
// needs: engine: fast; simd: avx512 avx2 plain; libraries: seppo::highway
#include <seppo/autograd/blas/multiply.h>

#include <hwy/targets.h>
#include <boost/test/unit_test.hpp>

// SEPPO_TEST_SIMD must hold for the whole test, although a large product asks Highway what the processor supports.
BOOST_AUTO_TEST_CASE(asking_for_the_instructions_does_not_change_them) {
  const seppo::real a[4 * 4] = {1}, b[4 * 16] = {2};
  seppo::real c[4 * 16];
  seppo::multiply({c, 4, 16}, {a, 4, 4}, {b, 4, 16});
  const std::size_t chosen = hwy::GetChosenTarget().GetIndex();
  BOOST_CHECK(hwy::SupportedTargets() != 0);
  BOOST_CHECK_EQUAL(hwy::GetChosenTarget().GetIndex(), chosen);
}
