// Calls OpenBLAS on one thread, after making sure that it uses kernels for this processor: a version older than the
// processor may take it for one from 2004.
#include "../core/check.h"
#include "product.h"

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>

// In an OpenBLAS for many processors (DYNAMIC_ARCH), these choose kernels by OPENBLAS_CORETYPE or the processor.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

namespace seppo {
inline namespace SEPPO_ABI {
namespace openblas {
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

// No thread may be within OpenBLAS meanwhile: this runs before the first product, and other threads wait for it.
void choose_kernels_once() {
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

// OpenBLAS runs on one thread while any of these exists. Then it has as many as before: the number belongs to the
// program, which may use OpenBLAS itself.
class OneThread {
 public:
  OneThread() {
    const std::lock_guard lock(mutex_);
    if (guards_++ > 0) return;
    programs_number_ = openblas_get_num_threads();
    set(1);
  }
  ~OneThread() {
    const std::lock_guard lock(mutex_);
    if (--guards_ == 0) set(programs_number_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static void set(int number) {
    if (number != openblas_get_num_threads()) openblas_set_num_threads(number);
  }
  inline static std::mutex mutex_;
  inline static int guards_ = 0, programs_number_ = 1;
};

blasint blas_size(std::size_t size) {
  check(size <= static_cast<std::size_t>(std::numeric_limits<blasint>::max()), "multiply: size ", size,
        " exceeds the integers of BLAS");
  return static_cast<blasint>(size);
}

CBLAS_TRANSPOSE transposition(const MatrixView& x) { return x.col_stride == 1 ? CblasNoTrans : CblasTrans; }

// BLAS refuses strides below the size of a row, and below 1; a matrix of one row or of none may have such.
blasint blas_stride(std::size_t stride, std::size_t size) {
  return blas_size(std::max({stride, size, std::size_t{1}}));
}
blasint stride(const MatrixView& x) {
  return x.col_stride == 1 ? blas_stride(x.row_stride, x.cols) : blas_stride(x.col_stride, x.rows);
}

void copy(const MatrixOut& to, const Addend& from) {
  for (std::size_t i = 0; i < to.rows; ++i) std::copy_n(from.at(i, 0), to.cols, to.at(i, 0));
}

}  // namespace

void gemm(const Product& p) {
  choose_kernels_once();
  const OneThread guard;
  if (p.addend.data && p.addend.data != p.c.data) copy(p.c, p.addend);
  const real beta = p.addend.data ? 1 : 0;
#ifdef SEPPO_FLOAT64
  constexpr auto run = cblas_dgemm;
#else
  constexpr auto run = cblas_sgemm;
#endif
  run(CblasRowMajor, transposition(p.a), transposition(p.b), blas_size(p.m()), blas_size(p.n()), blas_size(p.k()),
      real{1}, p.a.data, stride(p.a), p.b.data, stride(p.b), beta, p.c.data, blas_stride(p.c.stride, p.n()));
}

}  // namespace openblas
}  // namespace SEPPO_ABI
}  // namespace seppo
