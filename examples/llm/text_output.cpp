// Cuts text behind its last whole character, and escapes each part of a line.
#include "llm/text_output.h"

#include <seppo/nn/data/text.h>

#include <algorithm>

namespace llm {

namespace {

// The bytes at the end that may be the beginning of a character: less than four, of which the first says how many.
std::size_t incomplete_bytes(std::string_view text) {
  for (std::size_t size = 1; size <= std::min<std::size_t>(3, text.size()); ++size) {
    const auto byte = static_cast<unsigned char>(text[text.size() - size]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t whole = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    return size < whole ? size : 0;
  }
  return 0;
}

// Safe to show on a terminal, with its lines and tabs.
std::string shown(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::size_t size = std::min(text.find_first_of("\n\t"), text.size());
    append(safe, seppo::printable(text.substr(0, size), 4 * size + 1));
    if (size < text.size()) safe += text[size];
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return safe;
}

}  // namespace

void TextOutput::write(std::string_view bytes) {
  if (!is_terminal_) {
    out_ << bytes << std::flush;
    return;
  }
  waiting_ += bytes;
  const std::size_t size = waiting_.size() - incomplete_bytes(waiting_);
  out_ << shown(std::string_view(waiting_).substr(0, size)) << std::flush;
  waiting_.erase(0, size);
}

void TextOutput::finish() {
  out_ << shown(waiting_) << std::flush;
  waiting_.clear();
}

}  // namespace llm
