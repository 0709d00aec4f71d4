// Memory of the calling thread for packing the factors of a product, kept from one to the next.
#pragma once

#include "../core/memory.h"
#include "../core/real.h"

#include <cstddef>

namespace seppo::inline SEPPO_ABI::kernels {

inline Memory& packing_memory(std::size_t bytes) {
  static thread_local Memory memory;
  if (memory.size() < bytes) memory = Memory(bytes);
  return memory;
}

}  // namespace seppo::inline SEPPO_ABI::kernels
