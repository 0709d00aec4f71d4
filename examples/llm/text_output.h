// Generated text on standard output, token by token.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace llm {

// Writes bytes as they come. On a terminal, control characters other than line feed and tab, and bytes that are not
// UTF-8, are shown as \xNN; the bytes of a character that is not complete wait for the others, invalid ones for three
// more.
class TextOutput {
 public:
  TextOutput(std::ostream& out, bool is_terminal) : out_(out), is_terminal_(is_terminal) {}

  void write(std::string_view bytes);
  // Writes what is waiting.
  void finish();

 private:
  std::ostream& out_;
  bool is_terminal_;
  std::string waiting_;
};

}  // namespace llm
