// Files that are written whole or not at all.
#pragma once

#include "../../autograd/core/function_ref.h"

#include <cstddef>
#include <filesystem>
#include <string>

namespace seppo::inline SEPPO_ABI {

// An open file. Every failure throws FileError naming the file; read() throws FormatError at its end.
class File {
 public:
  enum class Open {
    reading,   // an existing regular file
    creating,  // one that does not exist; a symbolic link is not followed
    folder     // only to flush()
  };
  File(const std::filesystem::path& path, Open how);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::size_t size() const;
  void read(std::byte* data, std::size_t size);
  void write(const void* data, std::size_t size);
  void flush();  // to the disk
  void close();

 private:
  [[noreturn]] void fail_with(const char* what) const;

  std::filesystem::path path_;
  int fd_;
};

// Lets `write` fill a temporary file beside `path`, flushes it to the disk, then renames it: whatever happens, `path`
// holds the old file or the new one, whole.
void replace_atomically(const std::filesystem::path& path, FunctionRef<void(File&)> write);

// The same for a small text file.
void write_file_atomically(const std::filesystem::path& path, const std::string& content);

}  // namespace seppo::inline SEPPO_ABI
