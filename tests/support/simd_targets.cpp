// Restricts a test to fewer instructions than the machine has, as SEPPO_TEST_SIMD says.
#include <hwy/targets.h>
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

namespace {

struct SimdTarget {
  SimdTarget() {
    const char* wanted = std::getenv("SEPPO_TEST_SIMD");
    if (!wanted) return;
    const std::string name = wanted;
    const std::map<std::string, std::int64_t> targets = {
        {"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"plain", HWY_SCALAR}};  // the first excludes AMX
    if (!targets.count(name)) throw std::invalid_argument("SEPPO_TEST_SIMD is none of avx512, avx2 and plain");
    // Highway gives better targets lower bits.
    const auto better_than = [](std::int64_t target) { return target - 1; };
    hwy::DisableTargets(better_than(targets.at(name)));
  }
};

}  // namespace

BOOST_TEST_GLOBAL_CONFIGURATION(SimdTarget);
