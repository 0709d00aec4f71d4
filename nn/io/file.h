// File: an open file. It is read only if it is a regular file.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace seppo {
inline namespace SEPPO_ABI {

// Every failure throws FileError naming the file.
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
  // Replaces bytes that are written already; write() goes on at the end.
  void write_at(std::uint64_t offset, const void* data, std::size_t size);
  void flush();  // to the disk
  void close();

 private:
  [[noreturn]] void fail_with(const char* what) const;

  std::filesystem::path path_;
  int fd_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
