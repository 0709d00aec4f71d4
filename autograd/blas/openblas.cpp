// Calls OpenBLAS, or another library of BLAS, on one thread.
#include "../core/check.h"
#include "library.h"
#include "product.h"

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <mutex>

namespace seppo {
inline namespace SEPPO_ABI {
namespace openblas {
namespace {

// OpenBLAS runs on one thread while any of these exists. Then it has as many as before: the number belongs to the
// program, which may use OpenBLAS itself.
class OneThread {
 public:
  OneThread() {
    const std::lock_guard lock(mutex_);
    if (guards_++ > 0) return;
    programs_number_ = blas_threads();
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
    if (number != blas_threads()) set_blas_threads(number);
  }
  inline static std::mutex mutex_;
  inline static int guards_ = 0, programs_number_ = 1;
};

// The integers of the library, which has its own name for them, if any: those of the fourth parameter.
template <class Result, class Order, class Transpose, class Integer, class... Rest>
Integer integer_of(Result (*)(Order, Transpose, Transpose, Integer, Rest...));
using Integer = decltype(integer_of(cblas_sgemm));

Integer blas_size(std::size_t size) {
  check(size <= static_cast<std::size_t>(std::numeric_limits<Integer>::max()), "multiply: size ", size,
        " exceeds the integers of BLAS");
  return static_cast<Integer>(size);
}

CBLAS_TRANSPOSE transposition(const MatrixView& x) { return x.col_stride == 1 ? CblasNoTrans : CblasTrans; }

// BLAS refuses strides below the size of a row, and below 1; a matrix of one row or of none may have such.
Integer blas_stride(std::size_t stride, std::size_t size) {
  return blas_size(std::max({stride, size, std::size_t{1}}));
}
Integer stride(const MatrixView& x) {
  return x.col_stride == 1 ? blas_stride(x.row_stride, x.cols) : blas_stride(x.col_stride, x.rows);
}

void copy(const MatrixOut& to, const Addend& from) {
  for (std::size_t i = 0; i < to.rows; ++i) std::copy_n(from.at(i, 0), to.cols, to.at(i, 0));
}

}  // namespace

void gemm(const Product& p) {
  choose_blas_kernels();
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
