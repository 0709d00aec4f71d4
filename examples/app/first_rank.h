// Sends data from the first rank (nn/train/ranks.h) to all ranks. All ranks must call these functions in the same
// order; with one rank they do nothing.
#pragma once

#include <cstddef>
#include <span>

namespace examples {

void copy_from_first_rank(std::span<std::byte> data);

template <class T>
T of_first_rank(T value) {
  copy_from_first_rank(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace examples
