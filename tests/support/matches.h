// Regular expressions (ECMAScript's), without the compile time of <regex>.
#pragma once

#include <string>
#include <vector>

namespace test {

// What a pattern matched, followed by what each of its groups did; empty for a group that took no part.
using Match = std::vector<std::string>;

std::vector<Match> matches(const std::string& text, const std::string& pattern);
Match matched(const std::string& text, const std::string& pattern);  // of all of the text; empty if it does not match

}  // namespace test
