// Sends data from the first rank (nn/train/ranks.h) to all ranks. All ranks must call these functions in the same
// order; with one rank they do nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace examples {

void copy_from_first_rank(std::span<std::byte> data);

template <class T>
T of_first_rank(T value) {
  copy_from_first_rank(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

// A file with the content that `path` has on the first rank: `path` itself there, and an in-memory file on the other
// ranks, which may not have `path`. Throws seppo::FileError.
std::filesystem::path file_of_first_rank(const std::filesystem::path& path);

}  // namespace examples
