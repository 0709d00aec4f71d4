// Narrows numbers to the types of files.
#include "weight_type.h"

#include "safetensors.h"

#include "../../autograd/core/check.h"

#include <cmath>
#include <cstring>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr bool kIsSingle = sizeof(real) == sizeof(float);

float nearest(real x, float) { return static_cast<float>(x); }
Half nearest(real x, Half) { return Half::nearest(static_cast<float>(x)); }
BFloat nearest(real x, BFloat) { return BFloat::nearest(static_cast<float>(x)); }

template <class T>
std::vector<std::byte> narrowed(std::span<const real> values, const std::string& name) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T stored = nearest(values[i], T());
    check<NumericError>(std::isfinite(static_cast<float>(stored)), name, " has ", values[i],
                        ", too large for the file's type; nothing was saved");
    std::memcpy(&bytes[i * sizeof(T)], &stored, sizeof(T));
  }
  return bytes;
}

}  // namespace

const char* dtype_of(WeightType type) {
  static constexpr const char* kNames[] = {kIsSingle ? "F32" : "F64", "F32", "BF16", "F16"};
  return kNames[static_cast<std::size_t>(type)];
}

const char* torch_name(WeightType type) {
  static constexpr const char* kNames[] = {kIsSingle ? "float32" : "float64", "float32", "bfloat16", "float16"};
  return kNames[static_cast<std::size_t>(type)];
}

std::vector<std::byte> bytes_as(WeightType type, std::span<const real> values, const std::string& name) {
  if (type == WeightType::float32) return narrowed<float>(values, name);
  if (type == WeightType::bfloat16) return narrowed<BFloat>(values, name);
  if (type == WeightType::float16) return narrowed<Half>(values, name);
  const std::span<const std::byte> bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
