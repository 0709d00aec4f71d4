// Numbers in the files of /proc and /sys.
#pragma once

#include <filesystem>
#include <string_view>

namespace examples {

// The number after `key` in a file such as /proc/meminfo, "MemAvailable:    23 kB", or at the beginning of the file if
// `key` is empty; NaN if there is none.
double number_in(const std::filesystem::path& file, std::string_view key = "");

}  // namespace examples
