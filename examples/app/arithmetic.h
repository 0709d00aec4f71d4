// How this process computes: results depend on the processor and the libraries as well as on the program.
#pragma once

#include <string>

namespace examples {

// The best instruction set that the library's kernels use on this processor, by Highway's name: "AVX2".
std::string instructions();

// The instruction set that the kernels use, and a digest of the results of some functions and of products of several
// sizes, such as "AVX3 (a sample gives 0f3c...)". Equal for processes that give the same bytes.
std::string arithmetic();

}  // namespace examples
