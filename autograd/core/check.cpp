// The text of messages.
#include "check.h"

#include "region.h"

#include <charconv>

namespace seppo {
inline namespace SEPPO_ABI {
namespace detail {

void Part::add_number(std::string& text, double number) {
  char buffer[32];
  text.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

std::string concat(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

std::string where() {
  const RegionName region = current_region();
  return region.empty() ? "" : " (in " + region.text() + ")";
}

}  // namespace detail
}  // namespace SEPPO_ABI
}  // namespace seppo
