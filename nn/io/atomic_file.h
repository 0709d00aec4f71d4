// Files that are written whole or not at all, and read only if they are regular files; and digests.
#pragma once

#include "../../autograd/core/function_ref.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// An open file. Every failure throws FileError naming the file.
class File {
 public:
  enum class Open {
    reading,   // an existing regular file: folders, pipes and devices are refused, without waiting for them
    creating,  // a new file; a symbolic link is not followed
    folder     // only to flush()
  };
  File(const std::filesystem::path& path, Open how);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::uint64_t size() const;
  // The next bytes, at most `size`; returns how many, 0 at the end.
  std::size_t read_some(void* data, std::size_t size);
  // Reads exactly these bytes. Throws FormatError if the file ends before.
  void read_at(std::uint64_t offset, void* data, std::size_t size) const;
  void write(const void* data, std::size_t size);
  void flush();  // to the disk
  void close();

 private:
  [[noreturn]] void fail_with(const char* what) const;

  std::filesystem::path path_;
  int fd_;
};

// Lets `write` fill a temporary file beside `path`, PATH.tmp- and 16 hexadecimal digits, flushes it to the disk,
// renames it, and flushes the folder: whatever happens, `path` holds the complete old file or the complete new one. A
// process that is killed may leave the temporary file. A new file takes the mode of the one it replaces; a symbolic
// link to that file stays.
void replace_atomically(const std::filesystem::path& path, FunctionRef<void(File&)> write);

// A checksum that tells whether data have changed or a file is damaged: XXH3 of 128 bits (Collet 2021), as `xxhsum -H2`
// prints it. It detects accidents, not forgery: anyone can compute one.
class Digest {
 public:
  Digest();
  void add(const void* data, std::size_t bytes);
  std::string hex() const;  // 32 digits

 private:
  alignas(64) std::byte state_[576];  // the library's
};

}  // namespace SEPPO_ABI
}  // namespace seppo
