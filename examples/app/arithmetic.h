// How this process computes, beyond what its program says: results depend on the processor and the libraries, too.
#pragma once

#include <string>

namespace examples {

// The instructions that the kernels use, and the digest of what products of several sizes and functions give: such as
// "AVX3 (a sample gives 0f3c...)". Equal for processes that give the same bytes.
std::string arithmetic();

}  // namespace examples
