// The engine of MatmulPrecision::medium on processors with AVX-512 BF16 but without AMX, such as AMD's since Zen 4
// (avx512_bf16.cpp): in builds with SEPPO_BFLOAT16, for single precision.
#pragma once

#include "product.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace avx512_bf16 {

#ifdef SEPPO_BFLOAT16
bool is_available();           // on this processor, which has no AMX
bool suits(const Product& p);  // in the precision of this thread
void gemm(const Product& p);
#else
inline bool is_available() { return false; }
inline bool suits(const Product&) { return false; }
inline void gemm(const Product&) {}
#endif

}  // namespace avx512_bf16
}  // namespace SEPPO_ABI
}  // namespace seppo
