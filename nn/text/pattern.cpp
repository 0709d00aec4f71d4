// Patterns are compiled and matched by Oniguruma. It limits the steps back at one place but does not tell how many they
// were, so each place is tried with a small limit first, and then with larger ones, which are paid from the reserve.
#include "pattern.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <new>

#include <oniguruma.h>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr std::uint64_t kFree = 256;             // steps at one place that are not counted
constexpr std::uint64_t kFactor = 8;             // from one limit to the next
constexpr std::uint64_t kReserve = 10'000'000;   // of any text, beside
constexpr std::uint64_t kReserveOfByte = 128;    // this for each of its bytes
constexpr std::size_t kMostOfPattern = 1 << 14;  // bytes
constexpr unsigned kMostNested = 200;
constexpr unsigned kMostOnStack = 2 << 20;  // entries of at most 64 bytes

const OnigUChar* bytes_of(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

OnigRegion* region_of(const std::shared_ptr<void>& region) { return static_cast<OnigRegion*>(region.get()); }

void initialise_once() {
  static const bool is_done = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_parse_depth_limit(kMostNested);
    return true;
  }();
  static_cast<void>(is_done);
}

bool is_over_limit(int error) {
  return error == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER || error == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
}

}  // namespace

std::string quoted_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !std::isalnum(byte)) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

Matcher::Matcher(std::size_t bytes)
    : region_(onig_region_new(), [](void* p) { onig_region_free(static_cast<OnigRegion*>(p), /*free_self=*/1); }),
      limits_(onig_new_match_param(), [](void* p) { onig_free_match_param(static_cast<OnigMatchParam*>(p)); }),
      reserve_(kReserve + kReserveOfByte * bytes) {
  if (!region_ || !limits_) throw std::bad_alloc();
  auto* const limits = static_cast<OnigMatchParam*>(limits_.get());
  onig_initialize_match_param(limits);
  onig_set_match_stack_limit_size_of_match_param(limits, kMostOnStack);
  onig_set_retry_limit_in_search_of_match_param(limits, 0);  // only that at each place holds
}

Pattern::Pattern(std::string_view pattern, std::string_view name) {
  const std::string_view shown = pattern.substr(0, 80);
  check<FormatError>(pattern.size() <= kMostOfPattern, name, ": the pattern '", printable(shown), "...' has ",
                     pattern.size(), " bytes, more than ", kMostOfPattern);
  check<FormatError>(utf8_length(pattern) == pattern.size(), name, ": the pattern '", printable(shown),
                     "': is not UTF-8");
  initialise_once();
  OnigRegex made = nullptr;
  OnigErrorInfo info{};
  const int error = onig_new(&made, bytes_of(pattern), bytes_of(pattern) + pattern.size(), ONIG_OPTION_NONE,
                             ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, &info);
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> why{};
  if (error != ONIG_NORMAL) onig_error_code_to_str(why.data(), error, &info);
  check<FormatError>(error == ONIG_NORMAL, name, ": the pattern '", printable(shown),
                     "': ", printable(reinterpret_cast<const char*>(why.data())));
  code_ = {made, [](void* code) { onig_free(static_cast<OnigRegex>(code)); }};
}

// Searches the text from an offset, or tries this place only; the match is then in the matcher. Empty if a place needs
// more steps than the limit, which Oniguruma applies to each place anew.
std::optional<bool> Pattern::try_match(std::string_view text, std::size_t from, Place place, std::uint64_t limit,
                                       Matcher& matcher) const {
  auto* const limits = static_cast<OnigMatchParam*>(matcher.limits_.get());
  onig_set_retry_limit_in_match_of_match_param(limits, static_cast<unsigned long>(limit));
  auto* const code = static_cast<OnigRegex>(code_.get());
  const OnigUChar* const begin = bytes_of(text);
  const OnigUChar* const end = begin + text.size();
  OnigRegion* const region = region_of(matcher.region_);
  const int found = place == Place::any
                        ? onig_search_with_param(code, begin, end, begin + from, end, region, ONIG_OPTION_NONE, limits)
                        : onig_match_with_param(code, begin, end, begin + from, region, ONIG_OPTION_NONE, limits);
  if (is_over_limit(found)) return {};
  check<FormatError>(found >= 0 || found == ONIG_MISMATCH, "a pattern of the tokenizer fails with Oniguruma's error ",
                     found, " at '", printable(text.substr(from, 80)), "'");
  return found >= 0;
}

// Most searches need few steps at each place. For the others, the places are tried one by one.
std::optional<std::pair<std::size_t, std::size_t>> Pattern::find(std::string_view text, std::size_t from,
                                                                 Matcher& matcher) const {
  const OnigRegion& region = *region_of(matcher.region_);
  const auto match = [&, first = from] {
    const std::pair found{static_cast<std::size_t>(region.beg[0]), static_cast<std::size_t>(region.end[0])};
    check<FormatError>(found.first >= first,  // as by \K in a look-behind
                       "a pattern of the tokenizer has a match that begins too early, before '",
                       printable(text.substr(first, 80)), "'");
    return found;
  };
  if (const auto found = try_match(text, from, Place::any, kFree, matcher))
    return *found ? std::optional(match()) : std::nullopt;
  for (; from <= text.size(); from = behind_character(text, from)) {
    std::optional<bool> found = try_match(text, from, Place::this_one, kFree, matcher);
    for (std::uint64_t limit = kFactor * kFree; !found; limit *= kFactor) {
      check<FormatError>(limit <= matcher.reserve_,
                         "a pattern of the tokenizer takes too many steps for this text, at '",
                         printable(text.substr(from, 80)), "'");
      matcher.reserve_ -= limit;
      found = try_match(text, from, Place::this_one, limit, matcher);
    }
    if (*found) return match();
  }
  return {};
}

std::size_t Pattern::behind_character(std::string_view text, std::size_t at) {
  return at < text.size() ? at + std::max<std::size_t>(1, character_length(text.substr(at))) : at + 1;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
