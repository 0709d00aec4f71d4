#include <seppo/autograd/check.h>

#include <charconv>

namespace seppo::detail {

void append(std::string& text, double part) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, part).ptr;
  text.append(buffer, end);
}

}  // namespace seppo::detail
