// Sends files from the first rank (nn/train/ranks.h) to all ranks, which must call this in the same order.
#pragma once

#include <filesystem>

namespace examples {

// A file with the content that `path` has on the first rank: `path` itself there, and an in-memory file on the other
// ranks, which may not have `path`. Throws seppo::FileError.
std::filesystem::path file_of_first_rank(const std::filesystem::path& path);

}  // namespace examples
