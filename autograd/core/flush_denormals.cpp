// The control register of each processor.
#include "flush_denormals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Its bits for flush-to-zero and denormals-are-zero.
#if defined(__x86_64__)
constexpr unsigned long long kFlush = 0x8040;
#elif defined(__aarch64__)
constexpr unsigned long long kFlush = 1ull << 24;
#else
constexpr unsigned long long kFlush = 0;
#endif

}  // namespace

#if defined(__x86_64__)
unsigned long long float_mode() { return _mm_getcsr(); }
void set_float_mode(unsigned long long mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
unsigned long long float_mode() {
  unsigned long long mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_float_mode(unsigned long long mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }
#else
unsigned long long float_mode() { return 0; }
void set_float_mode(unsigned long long) {}
#endif

FlushDenormals::FlushDenormals() : saved_(float_mode()) { set_float_mode(saved_ | kFlush); }
FlushDenormals::~FlushDenormals() { set_float_mode(saved_); }

}  // namespace SEPPO_ABI
}  // namespace seppo
