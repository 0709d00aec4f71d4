// Regular expressions in Oniguruma's syntax, with bounds on what matching may cost: patterns come from untrusted files.
//
// They are matched by Oniguruma itself, as Hugging Face's package does, and mean what they mean there.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

// What matching has left for one text, in steps back that Oniguruma takes: for each byte a few, which are not counted,
// and a reserve that grows with the text. So steps back are in proportion to the length, whatever the patterns, or the
// text is refused. Steps forward are not counted: where a possessive or atomic group goes to the end of the text from
// each place, and then fails, they grow with the square of the length.
class Matcher {
 public:
  explicit Matcher(std::size_t bytes);

 private:
  friend class Pattern;
  std::shared_ptr<void> region_, limits_;
  std::uint64_t reserve_;
};

// The pattern of a text that stands for itself.
std::string quoted_pattern(std::string_view text);

class Pattern {
 public:
  // Throws FormatError, "NAME: the pattern '...': ...", also for more than 16 KiB and groups more than 200 deep.
  Pattern(std::string_view pattern, std::string_view name);

  // Begin and end of the first match in valid UTF-8 that begins at the offset or behind it. Throws FormatError if the
  // matcher's reserve is used up, if one match needs more than 128 MiB, or if a \K moves its begin before the offset.
  std::optional<std::pair<std::size_t, std::size_t>> find(std::string_view text, std::size_t from,
                                                          Matcher& matcher) const;

  // Calls f(begin, end) for each match. One of nothing right behind another match is none.
  template <class F>
  void each(std::string_view text, Matcher& matcher, const F& f) const {
    std::size_t from = 0;
    std::optional<std::size_t> last;
    while (from <= text.size()) {
      const auto found = find(text, from, matcher);
      if (!found) return;
      const auto [begin, end] = *found;
      if (begin == end && last == end) {
        from = behind_character(text, end);
        continue;
      }
      f(begin, end);
      from = end;
      last = end;
    }
  }

 private:
  enum class Place { this_one, any };
  std::optional<bool> try_match(std::string_view text, std::size_t from, Place place, std::uint64_t limit,
                                Matcher& matcher) const;
  static std::size_t behind_character(std::string_view text, std::size_t at);

  std::shared_ptr<void> code_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
