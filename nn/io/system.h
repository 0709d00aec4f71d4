// What the library asks of the system beside files: posix/system.cpp or windows/system.cpp, of which CMake compiles
// one.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <ctime>
#include <filesystem>

namespace seppo {
inline namespace SEPPO_ABI {

// The next bytes of standard input, at most `size`; returns how many, 0 at the end, and less than 0 if it cannot be
// read, with the reason in errno.
std::ptrdiff_t read_standard_input(void* data, std::size_t size);

// Two files or folders exchange their names in one step. False if that fails, with the reason in errno: EINVAL or
// ENOSYS where the system or the file system cannot do it.
bool exchange_names(const std::filesystem::path& a, const std::filesystem::path& b);

// The time of day here, whatever other threads ask for meanwhile.
std::tm local_time(std::time_t time);

}  // namespace SEPPO_ABI
}  // namespace seppo
