// The text of an error message.
#include "check.h"

#include <charconv>

namespace seppo::inline SEPPO_ABI::detail {

void Part::add_number(std::string& text, double number) {
  char buffer[32];
  text.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

std::string concat(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

}  // namespace seppo::inline SEPPO_ABI::detail
