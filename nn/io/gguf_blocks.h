// How GGUF files store numbers (gguf.h): plain, or in blocks that share their scales.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

struct GgufType {
  std::uint32_t id;  // as ggml numbers them
  const char* name;
  std::uint64_t block, bytes;                            // so many numbers in so many bytes; 0 if it is not read
  void (*decode)(std::span<const std::byte>, real* to);  // whole blocks
};

// Null for none of ggml's.
const GgufType* gguf_type(std::uint32_t id);
const GgufType* gguf_type(std::string_view name);
// "F32, F16 ..."
std::string gguf_types_that_are_read();

}  // namespace SEPPO_ABI
}  // namespace seppo
