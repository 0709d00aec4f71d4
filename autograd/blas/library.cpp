// OpenBLAS, which a version older than the processor may take for one from 2004.
#include "library.h"

#include <cblas.h>

#include <algorithm>
#include <cstdlib>

#ifndef _WIN32  // where no function may be missing
// In an OpenBLAS for many processors (DYNAMIC_ARCH), these choose kernels by OPENBLAS_CORETYPE or the processor.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}
#endif

namespace seppo {
inline namespace SEPPO_ABI {

#ifndef _WIN32
namespace {

constexpr const char* kCoreType = "OPENBLAS_CORETYPE";

#ifdef __x86_64__
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

// Kernels that suit this processor better than the given core's, or null. A core not listed here is a newer one.
const char* better_than(const std::string& core) {
  constexpr const char* kWithoutAvx2[] = {"Prescott",  "Core2",   "Penryn",      "Dunnington", "Atom",
                                          "Nano",      "Nehalem", "Sandybridge", "Opteron",    "Opteron_SSE3",
                                          "Barcelona", "Bobcat",  "Bulldozer",   "Piledriver", "Steamroller"};
  constexpr const char* kWithoutAvx512[] = {"Haswell", "Excavator", "Zen"};
  const bool lacks_avx2 = std::ranges::count(kWithoutAvx2, core) > 0;
  const bool lacks_avx512 = lacks_avx2 || std::ranges::count(kWithoutAvx512, core) > 0;
  if (has_avx512() && lacks_avx512) return "SkylakeX";
  if (has_avx2() && lacks_avx2) return "Haswell";
  return nullptr;
}

}  // namespace

void choose_blas_kernels() {
  [[maybe_unused]] static const bool done = [] {
    const bool can_choose = gotoblas_dynamic_init && gotoblas_dynamic_quit;
    const char* const better = std::getenv(kCoreType) ? nullptr : better_than(openblas_get_corename());
    if (better && can_choose) {  // the user has not chosen
      setenv(kCoreType, better, 1);
      gotoblas_dynamic_quit();
      gotoblas_dynamic_init();
      unsetenv(kCoreType);
    }
    return true;
  }();
}

#else
void choose_blas_kernels() {}
#endif

std::string blas_library() { return std::string(openblas_get_config()) + "; kernels for " + openblas_get_corename(); }

int blas_threads() { return openblas_get_num_threads(); }

void set_blas_threads(int number) { openblas_set_num_threads(number); }

}  // namespace SEPPO_ABI
}  // namespace seppo
