// What files store numbers as: reals, or others, of which the narrow ones halve a file.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// `own`: as reals are here.
enum class WeightType { own, float32, bfloat16, float16 };

// As safetensors files call it: "F32", "BF16".
const char* dtype_of(WeightType type);
// As PyTorch calls it: "float32", "bfloat16".
const char* torch_name(WeightType type);

// The bytes of numbers, each rounded to the nearest of the type, of two to the even one. Throws NumericError, beginning
// with `name`, for a number that is too large for it.
std::vector<std::byte> bytes_as(WeightType type, std::span<const real> values, const std::string& name);

}  // namespace SEPPO_ABI
}  // namespace seppo
