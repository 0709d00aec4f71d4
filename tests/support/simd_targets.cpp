// Runs a test on narrower vector instructions than the machine has, when SEPPO_TEST_SIMD says so.
#include <hwy/targets.h>
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

struct SimdTarget {
  SimdTarget() {
    const char* wanted = std::getenv("SEPPO_TEST_SIMD");
    if (!wanted) return;
    const std::string name = wanted;
    if (name != "avx2" && name != "plain") throw std::invalid_argument("SEPPO_TEST_SIMD is neither avx2 nor plain");
    // In Highway, a better target has a smaller bit.
    const auto better_than = [](std::int64_t target) { return target - 1; };
    hwy::DisableTargets(better_than(name == "avx2" ? HWY_AVX2 : HWY_SCALAR));
  }
};

}  // namespace

BOOST_TEST_GLOBAL_CONFIGURATION(SimdTarget);
