// Text: splitting, UTF-8 by the table of well-formed sequences (Unicode, 3-7), and escaping.
#include "text.h"

#include <algorithm>

namespace seppo::inline SEPPO_ABI {

std::vector<std::string_view> split_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<std::string_view> pieces;
  for (std::size_t begin; (begin = text.find_first_not_of(kBlanks)) != std::string_view::npos;) {
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return pieces;
}

std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF0 && byte(1) < 0x90) ||
      (lead == 0xF4 && byte(1) > 0x8F))
    return 0;  // overlong, surrogate, or beyond U+10FFFF
  return length;
}

std::string printable(std::string_view text, std::size_t limit) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= limit) return shown + "...";
    std::size_t length = character_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool control =
        byte < 0x20 || byte == 0x7F || (length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length == 0 || control) {
      shown += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      length = 1;
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return shown;
}

std::string printable_path(const std::filesystem::path& path) { return printable(path.string(), 120); }

}  // namespace seppo::inline SEPPO_ABI
