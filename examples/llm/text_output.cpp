// Cuts text behind its last whole character.
#include "llm/text_output.h"

#include "app/printable.h"

#include <seppo/autograd/core/utf8.h>

namespace llm {

namespace {

// The bytes up to the last ones that a character may still begin with: three at most.
std::size_t complete_bytes(std::string_view text) {
  constexpr std::size_t kMostWaiting = 3;
  std::size_t size = seppo::utf8_length(text);
  while (text.size() - size > kMostWaiting) size += 1 + seppo::utf8_length(text.substr(size + 1));
  return size;
}

}  // namespace

void TextOutput::write(std::string_view bytes) {
  if (!is_terminal_) {
    out_ << bytes << std::flush;
    return;
  }
  waiting_ += bytes;
  const std::size_t size = complete_bytes(waiting_);
  out_ << examples::shown_lines(std::string_view(waiting_).substr(0, size)) << std::flush;
  waiting_.erase(0, size);
}

void TextOutput::finish() {
  out_ << examples::shown_lines(waiting_) << std::flush;
  waiting_.clear();
}

}  // namespace llm
