// Shared by the fuzz targets: rules that abort the fuzzer if broken, choices driven by the input's bytes, and an
// in-memory file for code that reads files.
#pragma once

#include <seppo/autograd/core/utf8.h>

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace fuzz {

inline void require(bool ok, std::string_view rule, std::string_view detail = "") {
  if (ok) return;
  std::fprintf(stderr, "broken rule: %.*s %.*s\n", static_cast<int>(rule.size()), rule.data(),
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

// Can be printed on one line of a terminal: UTF-8 without control characters.
inline bool is_one_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = seppo::character_length(text);
    const bool is_control = length == 1
                                ? text[0] < 0x20 || text[0] == 0x7F
                                : length == 2 && text[0] == '\xC2' && static_cast<unsigned char>(text[1]) < 0xA0;
    if (length == 0 || is_control) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Whether f() throws. Only these errors are allowed, each with one short line as its message.
template <class... Allowed, class F>
bool refuses(const F& f) {
  try {
    f();
    return false;
  } catch (const std::exception& e) {
    const std::string_view message = e.what();
    require((dynamic_cast<const Allowed*>(&e) || ...), "another kind of error:", message);
    require(message.size() < 500 && is_one_line(message), "a message is not one short line:", message);
    return true;
  }
}

// The bytes of an input, one by one; zeros after its end.
class Bytes {
 public:
  explicit Bytes(std::string_view text) : rest_(text) {}

  int byte() {
    if (rest_.empty()) return 0;
    const auto first = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    return first;
  }
  int below(int n) { return byte() % n; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// A regular file that exists only in memory.
class MemoryFile {
 public:
  MemoryFile() = default;
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::filesystem::path& hold(std::string_view content) {
    const bool done =
        ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, content.data(), content.size(), 0) == std::ssize(content);
    require(done, "cannot write a file in memory");
    return path_;
  }

 private:
  int fd_ = ::memfd_create("fuzz", MFD_CLOEXEC);
  std::filesystem::path path_ = "/proc/self/fd/" + std::to_string(fd_);
};

}  // namespace fuzz
