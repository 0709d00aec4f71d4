// The optional accelerator among the engines (engine.cpp): AMX (amx.cpp), in builds with SEPPO_BFLOAT16 for single
// precision.
#pragma once

#include "compact_product.h"
#include "product.h"

#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {

#ifdef SEPPO_BFLOAT16
bool is_available();  // on this processor, from this system
bool suits(const Product& p);
void gemm(const Product& p);
// For few rows of A, packed before, and with B's columns dense: reads B once for 32 rows.
bool suits_few_rows(const Product& p);
std::size_t few_rows_size(const Product& p);  // bytes
void pack_few_rows(std::uint32_t* packed, const Product& p);
void few_rows(const Product& p, const std::uint32_t* packed);
// The same with a bf16 weight (amx_compact.cpp).
bool suits_few_rows(const CompactProduct& p);
std::size_t few_rows_size(const CompactProduct& p);
void pack_few_rows(std::uint32_t* packed, const CompactProduct& p);
void few_rows(const CompactProduct& p, const std::uint32_t* packed);
#else
inline bool is_available() { return false; }
inline bool suits(const Product&) { return false; }
inline void gemm(const Product&) {}
inline bool suits_few_rows(const Product&) { return false; }
inline std::size_t few_rows_size(const Product&) { return 0; }
inline void pack_few_rows(std::uint32_t*, const Product&) {}
inline void few_rows(const Product&, const std::uint32_t*) {}
inline bool suits_few_rows(const CompactProduct&) { return false; }
inline std::size_t few_rows_size(const CompactProduct&) { return 0; }
inline void pack_few_rows(std::uint32_t*, const CompactProduct&) {}
inline void few_rows(const CompactProduct&, const std::uint32_t*) {}
#endif

}  // namespace amx
}  // namespace SEPPO_ABI
}  // namespace seppo
