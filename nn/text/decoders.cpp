// One function for each step; std::visit chooses.
#include "decoders.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "alphabet.h"
#include "text_ids.h"

#include <algorithm>
#include <array>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string made;
  std::size_t done = 0;
  if (from.empty()) return std::string(text);
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, done)) {
    made.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  return made.append(text, done);
}

// What transformers cleans up, in its order.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kCleaned{{{" .", "."},
                                                                                  {" ?", "?"},
                                                                                  {" !", "!"},
                                                                                  {" ,", ","},
                                                                                  {" ' ", "'"},
                                                                                  {" n't", "n't"},
                                                                                  {" 'm", "'m"},
                                                                                  {" do not", " don't"},
                                                                                  {" 's", "'s"},
                                                                                  {" 've", "'ve"},
                                                                                  {" 're", "'re"}}};

struct Decoding {
  std::string_view text;
  TokenPlace place;
  std::size_t most;  // bytes of the result

  std::string operator()(const DecodeAlphabet&) const { return from_alphabet(text).value_or(std::string(text)); }
  std::string operator()(const DecodeBytes&) const {
    const auto byte = byte_named(text);
    return byte ? std::string{*byte} : std::string(text);
  }
  std::string operator()(const DecodeReplace& step) const {
    std::string made;
    std::size_t done = 0;
    Matcher matcher(text.size());
    step.pattern.each(text, matcher, [&](std::size_t begin, std::size_t end) {
      made.append(text, done, begin - done).append(step.text);
      done = end;
      check_size(made);
    });
    return made.append(text, done);
  }
  std::string operator()(const DecodeStrip& step) const {
    std::string_view rest = text;
    const std::size_t size = step.character.size();
    const bool strips_left = !step.is_of_text || place.is_first, strips_right = !step.is_of_text || place.is_last;
    for (std::size_t n = 0; strips_left && n < step.left && rest.starts_with(step.character); ++n)
      rest.remove_prefix(size);
    for (std::size_t n = 0; strips_right && n < step.right && rest.ends_with(step.character); ++n)
      rest.remove_suffix(size);
    return std::string(rest);
  }
  std::string operator()(const DecodeMetaspace& step) const {
    const bool drops = place.is_first && step.drops_first;
    return replaced(text, step.mark, drops ? "" : " ");
  }
  std::string operator()(const DecodeWordPiece& step) const {
    std::string made(text);
    if (!place.is_first) made = text.starts_with(step.prefix) ? made.substr(step.prefix.size()) : " " + made;
    if (!step.cleans) return made;
    for (const auto& [from, to] : kCleaned) made = replaced(made, from, to);
    return made;
  }
  std::string operator()(const DecodeSuffix& step) const {
    return replaced(text, step.suffix, place.is_last ? "" : " ");
  }
  std::string operator()(const DecodeSpaced&) const { return (place.is_first ? "" : " ") + std::string(text); }

  void check_size(const std::string& made) const {
    check<FormatError>(made.size() <= most, "the decoder of the tokenizer makes more than ", most, " bytes of '",
                       printable(text), "'");
  }
};

}  // namespace

std::string TokenDecoder::apply(std::span<const DecodeStep> steps, std::string_view text, TokenPlace place) {
  const std::size_t most = 64 * text.size() + (1 << 20);
  std::string made(text);
  for (const DecodeStep& step : steps) {
    const Decoding decoding{made, place, most};
    std::string next = std::visit(decoding, step);
    decoding.check_size(next);
    made.swap(next);
  }
  return made;
}

bool TokenDecoder::sees_first() const {
  return std::ranges::any_of(of_tokens, [](const DecodeStep& step) {
    return std::holds_alternative<DecodeMetaspace>(step) || std::holds_alternative<DecodeWordPiece>(step) ||
           std::holds_alternative<DecodeSpaced>(step);
  });
}

bool TokenDecoder::sees_last() const {
  return std::ranges::any_of(of_tokens,
                             [](const DecodeStep& step) { return std::holds_alternative<DecodeSuffix>(step); });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
