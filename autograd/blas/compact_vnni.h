// The engine of q8 weights on processors with AVX-512 VNNI, such as Intel's Xeons since 2021 and AMD's since Zen 4
// (compact_vnni.cpp), for single precision. It takes any number of rows.
#pragma once

#include "compact_product.h"

#include <cstddef>

#if defined(__x86_64__) && !defined(SEPPO_FLOAT64)
#define SEPPO_VNNI
#endif

namespace seppo {
inline namespace SEPPO_ABI {
namespace vnni {

#ifdef SEPPO_VNNI
bool suits(const CompactProduct& p);
// pack_for_compact() has made `a` of A.
void multiply(const CompactProduct& p, const std::byte* a);
#else
inline bool suits(const CompactProduct&) { return false; }
inline void multiply(const CompactProduct&, const std::byte*) {}
#endif

}  // namespace vnni
}  // namespace SEPPO_ABI
}  // namespace seppo
