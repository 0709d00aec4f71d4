// Shows untrusted text safely: in messages, and on one line of a terminal.
//
//   fail<FormatError>("vocabulary: unknown word ", printable(word));
#pragma once

#include "real.h"

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// Untrusted text, made safe to show on one line of a terminal: about `limit` bytes at most, with control characters and
// invalid UTF-8 as \xNN. It refers to the text, and is escaped only when it becomes part of a message.
struct Printable {
  std::string_view text;
  std::size_t limit;
  operator std::string() const;
};
void append(std::string& to, const Printable& shown);
std::string operator+(std::string text, const Printable& shown);

inline Printable printable(std::string_view text, std::size_t limit = 60) { return {text, limit}; }
// Of a temporary, which does not outlive a reference to it.
template <class Text>
requires std::same_as<Text, std::string> std::string printable(Text&& text, std::size_t limit = 60) {
  return printable(std::string_view(text), limit);
}
// The same for a path, of which 120 bytes are shown. Where paths are no bytes, as on Windows, it is a text of its own.
inline Printable printable_path(const std::filesystem::path&, const std::string& bytes) {
  return printable(bytes, 120);
}
template <class Wide>
std::string printable_path(const std::filesystem::path& path, const Wide&) {
  const auto text = path.u8string();
  return printable(std::string(text.begin(), text.end()), 120);
}
inline auto printable_path(const std::filesystem::path& path) { return printable_path(path, path.native()); }
inline std::string printable_path(std::filesystem::path&& path) { return std::string(printable_path(path)); }

}  // namespace SEPPO_ABI
}  // namespace seppo
