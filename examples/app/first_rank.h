// What the first rank (nn/train/ranks.h) has, for all. All ranks must call these in the same order; with one rank they
// do nothing.
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

// A file with what the first rank reads from `path`: this path itself there, and on the others, which may not have it,
// one in the memory of their process. Throws seppo::FileError.
std::filesystem::path file_of_first_rank(const std::filesystem::path& path);

}  // namespace examples
