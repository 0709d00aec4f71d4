// The control groups of this process (Linux's cgroups, versions 1 and 2), whose limits containers have.
#pragma once

#include <seppo/autograd/core/function_ref.h>

#include <filesystem>
#include <string_view>

namespace examples {

// The number after `key` in a file such as /proc/meminfo, "MemAvailable:    23 kB", or at the beginning of the file if
// `key` is empty; NaN if there is none.
double number_in(const std::filesystem::path& file, std::string_view key = "");

struct ControlGroup {
  std::filesystem::path folder;
  bool is_first_version;  // which names its files differently
};
// Calls f for each group of this process that has the controller ("memory", "cpu"), and for the ancestors of each: all
// their limits hold. `root` is where proc and sys are found.
void for_each_control_group(const std::filesystem::path& root, std::string_view controller,
                            seppo::FunctionRef<void(const ControlGroup&)> f);

}  // namespace examples
