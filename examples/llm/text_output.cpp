// Cuts text behind its last whole character.
#include "llm/text_output.h"

#include "app/printable.h"

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

}  // namespace

void TextOutput::write(std::string_view bytes) {
  if (!is_terminal_) {
    out_ << bytes << std::flush;
    return;
  }
  waiting_ += bytes;
  const std::size_t size = waiting_.size() - incomplete_bytes(waiting_);
  out_ << examples::shown_lines(std::string_view(waiting_).substr(0, size)) << std::flush;
  waiting_.erase(0, size);
}

void TextOutput::finish() {
  out_ << examples::shown_lines(waiting_) << std::flush;
  waiting_.clear();
}

}  // namespace llm
