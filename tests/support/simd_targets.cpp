// Restricts a process to fewer instructions than the machine has, as SEPPO_TEST_SIMD says: linked into tests, and
// preloaded into everything by the avx2 preset.
#include <hwy/targets.h>

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

namespace {

// hwy::DisableTargets would not do: the next call of hwy::SupportedTargets() undoes it.
const bool is_restricted = [] {
  const char* wanted = std::getenv("SEPPO_TEST_SIMD");
  if (!wanted) return false;
  const std::string name = wanted;
  const std::map<std::string, std::int64_t> targets = {
      {"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"plain", HWY_SCALAR}};  // the first excludes AMX
  if (!targets.count(name)) throw std::invalid_argument("SEPPO_TEST_SIMD is none of avx512, avx2 and plain");
  const std::int64_t better = targets.at(name) - 1;  // Highway gives better targets lower bits
  hwy::SetSupportedTargetsForTest((hwy::SupportedTargets() & ~better) | HWY_SCALAR);
  return true;
}();

}  // namespace
