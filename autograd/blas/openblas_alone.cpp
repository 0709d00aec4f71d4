// The choice of an engine in builds with SEPPO_FAST=OFF, instead of engine.cpp: OpenBLAS computes every product.
#include "compact_product.h"
#include "product.h"

#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

void compute(const Product& p) { openblas::gemm(p); }

void compute(const CompactProduct& p) { compute_expanded(p); }

std::string blas_description() { return "OpenBLAS; high is highest; medium is highest"; }

}  // namespace SEPPO_ABI
}  // namespace seppo
