// The program's choice of a precision, and each thread's.
#include "matmul_precision.h"

#include <atomic>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

std::atomic<MatmulPrecision> of_the_program{MatmulPrecision::highest};

}  // namespace

std::optional<MatmulPrecision>& UseMatmulPrecision::chosen() {
  static thread_local std::optional<MatmulPrecision> of_thread;
  return of_thread;
}

void set_matmul_precision(MatmulPrecision precision) { of_the_program = precision; }

MatmulPrecision matmul_precision() { return UseMatmulPrecision::chosen().value_or(of_the_program); }

}  // namespace SEPPO_ABI
}  // namespace seppo
