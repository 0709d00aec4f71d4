// Files that are written whole or not at all.
//
//   replace_atomically("numbers", [&](File& file) { file.write(numbers.data(), numbers.size() * sizeof numbers[0]); });
#pragma once

#include "../../autograd/core/function_ref.h"
#include "file.h"

#include <filesystem>
#include <functional>

namespace seppo {
inline namespace SEPPO_ABI {

// Lets `write` fill a temporary file beside `path`, PATH.tmp- and 16 hexadecimal digits, flushes it to the disk,
// renames it, and flushes the folder: whatever happens, `path` holds the complete old file or the complete new one. A
// process that is killed may leave the temporary file. A new file takes the mode of the one it replaces; a symbolic
// link to that file stays.
void replace_atomically(const std::filesystem::path& path, FunctionRef<void(File&)> write);
// Lets `write` call replace_atomically(), which on this thread only fills the temporary files then. The rest, to flush
// and rename each in the same order, waits for the disk; it is done by the function that is returned, once, on any
// thread. If it is not called, or fails, the temporary files go with its last copy.
std::function<void()> replace_atomically_later(FunctionRef<void()> write);
// Replaces `to` by a copy of the file `from`.
void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace SEPPO_ABI
}  // namespace seppo
