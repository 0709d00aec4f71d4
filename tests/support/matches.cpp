// The regular expressions behind test::matches.
#include "support/matches.h"

#include <regex>

namespace test {

std::vector<Match> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<Match> found;
  for (std::sregex_iterator m(text.begin(), text.end(), regex), end; m != end; ++m)
    found.emplace_back(m->begin(), m->end());
  return found;
}

Match matched(const std::string& text, const std::string& pattern) {
  std::smatch m;
  if (!std::regex_match(text, m, std::regex(pattern))) return {};
  return {m.begin(), m.end()};
}

}  // namespace test
