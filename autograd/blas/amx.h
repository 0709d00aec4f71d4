// The optional accelerator behind gemm(): AMX (amx.cpp), in builds with SEPPO_AMX for single precision.
#pragma once

#include "product.h"

namespace seppo::inline SEPPO_ABI::amx {

#ifdef SEPPO_AMX
bool is_available();  // on this processor, from this system
bool suits(const Product& p);
void gemm(const Product& p);
#else
inline bool is_available() { return false; }
inline bool suits(const Product&) { return false; }
inline void gemm(const Product&) {}
#endif

}  // namespace seppo::inline SEPPO_ABI::amx
