// fmt prints untrusted text as seppo's own messages do: escaped.
#pragma once

#include <seppo/nn/data/text.h>

#include <fmt/format.h>

template <>
struct fmt::formatter<seppo::Printable> : fmt::formatter<std::string> {
  auto format(const seppo::Printable& shown, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(shown, context);
  }
};
