// OpenBLAS behind gemm(): on one thread, with kernels for this processor.
#pragma once

#include "product.h"

namespace seppo::inline SEPPO_ABI::openblas {

void gemm(const Product& p);

}  // namespace seppo::inline SEPPO_ABI::openblas
