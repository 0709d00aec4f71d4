#include "check.h"

#include <charconv>

namespace seppo::inline SEPPO_ABI::detail {

Part::Part(const char* text)
    : value_{.pointer = text}, append_([](std::string& to, Value v) { to += static_cast<const char*>(v.pointer); }) {}
Part::Part(const std::string& text)
    : value_{.pointer = &text},
      append_([](std::string& to, Value v) { to += *static_cast<const std::string*>(v.pointer); }) {}
Part::Part(const std::string_view& text)
    : value_{.pointer = &text},
      append_([](std::string& to, Value v) { to += *static_cast<const std::string_view*>(v.pointer); }) {}
Part::Part(char character)
    : value_{.integer = character}, append_([](std::string& to, Value v) { to += static_cast<char>(v.integer); }) {}
Part::Part(int number) : Part(std::int64_t{number}) {}
Part::Part(std::int64_t number)
    : value_{.integer = number}, append_([](std::string& to, Value v) { to += std::to_string(v.integer); }) {}
Part::Part(std::size_t number)
    : value_{.size = number}, append_([](std::string& to, Value v) { to += std::to_string(v.size); }) {}
Part::Part(double number)
    : value_{.number = number}, append_([](std::string& to, Value v) {
        char buffer[32];
        to.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v.number).ptr);
      }) {}

std::string concat(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

}  // namespace seppo::inline SEPPO_ABI::detail
