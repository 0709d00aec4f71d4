// The header of a safetensors file as text. Only the library's own files include this one.
#pragma once

#include "safetensors.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

constexpr std::size_t kMaxHeader = std::size_t{16} << 20;

struct SafeTensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;
};

// Each tensor by itself is as the format demands. Throws FormatError at the first byte that breaks a rule.
SafeTensorsHeader read_header(std::string_view file, const std::string& text);

// Throws ArgumentError for what the reader would refuse.
std::string header_text(const std::map<std::string, std::string>& metadata, std::span<const TensorInfo> tensors);

// The bytes that a shape takes, or what it would without overflow, which header_text() refuses.
std::uint64_t bytes_of_shape(const TensorInfo& tensor);

}  // namespace SEPPO_ABI
}  // namespace seppo
