// The only reader of untrusted text: files and standard input as UTF-8, in pieces, in lines or as a whole.
//
//   TextReader("pairs.tsv").for_each_line([&](std::string_view line) { lines.emplace_back(line); });
//
// A read that fails, even midway, throws FileError, and so does a file whose size changes while it is read; invalid
// UTF-8 throws FormatError naming the place, "pairs.tsv:12:7: byte 0xff is not UTF-8". A byte order mark at the
// beginning is skipped.
#pragma once

#include "file.h"

#include "../../autograd/core/function_ref.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

class TextReader {
 public:
  explicit TextReader(const std::filesystem::path& path);  // a regular file
  TextReader();                                            // standard input

  // The next whole characters, about 256 KiB, or what standard input has available; empty at the end. Valid until the
  // next call.
  std::string_view next();
  // The place of byte `at` of the piece that next() returned: "pairs.tsv:12:7", line and column counted from 1, in
  // characters.
  std::string where(std::size_t at) const;
  // Calls f with each remaining line, without its LF or CR LF. Throws FormatError for a line of more than `longest`
  // bytes, "pairs.tsv:12: is longer than 65536 bytes": memory is bounded by it, whatever the file is.
  void for_each_line(FunctionRef<void(std::string_view line)> f,
                     std::size_t longest = std::numeric_limits<std::size_t>::max());

 private:
  struct Place {
    std::size_t line = 1, column = 1;
  };
  Place place_of(std::size_t at) const;
  std::size_t read(char* to, std::size_t size);
  bool read_more();

  std::string name_, buffer_;
  std::optional<File> file_;
  std::uint64_t size_ = 0;   // bytes of the file when it was opened; 0 if unknown, as in /proc
  std::uint64_t taken_ = 0;  // bytes that were read so far
  std::size_t piece_;        // bytes to read at once
  std::size_t shown_ = 0;    // bytes of the buffer that next() has returned
  Place place_;              // of the beginning of the buffer
  bool is_at_start_ = true;
};

// The whole file.
std::string read_text(const std::filesystem::path& path);

// Replaces a small file with this text, atomically. Throws FileError.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace SEPPO_ABI
}  // namespace seppo
