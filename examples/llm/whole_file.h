// Reads the files of a tokenizer, which are of moderate size.
#pragma once

#include <filesystem>
#include <string>

namespace llm {

// Throws seppo::FormatError for more than 64 MiB, seppo::FileError.
std::string read_whole(const std::filesystem::path& path);

}  // namespace llm
