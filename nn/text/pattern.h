// Regular expressions that split texts, with bounds on what matching may cost: patterns come from untrusted files.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// What matching has left for one text, in PCRE2's steps: for each byte a few, which are not counted, and a reserve that
// grows with the text. So a text takes time in proportion to its length, whatever the patterns, or is refused.
class Matcher {
 public:
  explicit Matcher(std::size_t bytes);

 private:
  friend class Pattern;
  std::shared_ptr<void> match_, context_;
  std::uint64_t reserve_;
};

enum class Keep { all, matches, gaps };

class Pattern {
 public:
  // Oniguruma's syntax (oniguruma.h). Throws FormatError, "NAME: the pattern '...': ...".
  Pattern(std::string_view pattern, std::string_view name);

  // Appends the matches and the gaps between them, of valid UTF-8, to `pieces`: those to keep that are not empty. A
  // match of nothing divides a gap. Throws FormatError if the matcher's reserve is used up, or if one match
  // needs more than 64 MiB.
  void split(std::string_view text, Keep keep, Matcher& matcher, std::vector<std::string_view>& pieces) const;

 private:
  std::optional<bool> try_match(std::string_view text, std::size_t from, bool is_search, std::uint64_t limit,
                                Matcher& matcher) const;
  bool find(std::string_view text, std::size_t from, Matcher& matcher) const;

  std::shared_ptr<void> code_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
