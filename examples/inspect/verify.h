// `seppo verify FILE...`: are files as they were written, and if not, which tensor is damaged?
#pragma once

#include "app/command_line.h"

#include <filesystem>
#include <vector>

namespace inspect {

// The file itself; of a folder, the safetensors files in it and in its folders. Throws UsageError if there are none.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& path);

// Returns 1 if a file is damaged or no safetensors file; the others are checked all the same.
int verify(const examples::Arguments& arguments);

}  // namespace inspect
