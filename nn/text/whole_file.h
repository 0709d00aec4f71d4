// Reads the files of a tokenizer, which are of moderate size.
#pragma once

#include "../../autograd/core/real.h"

#include <filesystem>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// Throws FormatError for more than 64 MiB, FileError.
std::string read_whole(const std::filesystem::path& path);

}  // namespace SEPPO_ABI
}  // namespace seppo
