// All matches of a pattern in a text.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace test {

// They refer to the text, which must outlive them.
inline std::vector<std::smatch> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), {}};
}

}  // namespace test
