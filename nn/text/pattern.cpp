// Patterns are compiled and matched by PCRE2. It limits the steps at one place but does not tell how many they were, so
// each place is tried with a small limit first, and then with larger ones, which are paid from the reserve.
#include "pattern.h"

#include "oniguruma.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <array>
#include <new>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr std::uint64_t kFree = 256;            // steps at one place that are not counted
constexpr std::uint64_t kFactor = 8;            // from one limit to the next
constexpr std::uint64_t kReserve = 10'000'000;  // of any text, beside
constexpr std::uint64_t kReserveOfByte = 128;   // this for each of its bytes
constexpr std::uint32_t kMostKilobytes = 1 << 16;

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

pcre2_match_data* match_of(const std::shared_ptr<void>& match) { return static_cast<pcre2_match_data*>(match.get()); }

}  // namespace

Matcher::Matcher(std::size_t bytes)
    : match_(pcre2_match_data_create(1, nullptr),
             [](void* p) { pcre2_match_data_free(static_cast<pcre2_match_data*>(p)); }),
      context_(pcre2_match_context_create(nullptr),
               [](void* p) { pcre2_match_context_free(static_cast<pcre2_match_context*>(p)); }),
      reserve_(kReserve + kReserveOfByte * bytes) {
  if (!match_ || !context_) throw std::bad_alloc();
  pcre2_set_heap_limit(static_cast<pcre2_match_context*>(context_.get()), kMostKilobytes);
}

Pattern::Pattern(std::string_view pattern, std::string_view name) {
  const std::string translated = pcre2_pattern(pattern, name);
  const std::shared_ptr<pcre2_compile_context> context(pcre2_compile_context_create(nullptr),
                                                       pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_ = {
      pcre2_compile(bytes_of(translated), translated.size(), PCRE2_UTF | PCRE2_MULTILINE, &error, &at, context.get()),
      [](void* code) { pcre2_code_free(static_cast<pcre2_code*>(code)); }};
  std::array<unsigned char, 128> why{};
  pcre2_get_error_message(error, why.data(), why.size());
  check<FormatError>(code_ != nullptr, name, ": the pattern '", printable(pattern),
                     "': ", reinterpret_cast<const char*>(why.data()));
}

// Searches the text from an offset, or tries this place only; the match is then in the matcher. Empty if a place needs
// more steps than the limit, which PCRE2 applies to each place anew.
std::optional<bool> Pattern::try_match(std::string_view text, std::size_t from, bool is_search, std::uint64_t limit,
                                       Matcher& matcher) const {
  auto* const context = static_cast<pcre2_match_context*>(matcher.context_.get());
  pcre2_set_match_limit(context, static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, UINT32_MAX)));
  const int found =
      pcre2_match(static_cast<const pcre2_code*>(code_.get()), bytes_of(text), text.size(), from,
                  PCRE2_NO_UTF_CHECK | (is_search ? 0 : PCRE2_ANCHORED), match_of(matcher.match_), context);
  if (found == PCRE2_ERROR_MATCHLIMIT) return {};
  check<FormatError>(found >= 0 || found == PCRE2_ERROR_NOMATCH, "a pattern of the tokenizer fails with PCRE2's error ",
                     found, " at '", printable(text.substr(from)), "'");
  return found >= 0;
}

// Most searches need few steps at each place. For the others, the places are tried one by one.
bool Pattern::find(std::string_view text, std::size_t from, Matcher& matcher) const {
  if (const auto found = try_match(text, from, /*is_search=*/true, kFree, matcher)) return *found;
  for (; from < text.size(); from += character_length(text.substr(from))) {
    std::optional<bool> found = try_match(text, from, /*is_search=*/false, kFree, matcher);
    for (std::uint64_t limit = kFactor * kFree; !found; limit *= kFactor) {
      check<FormatError>(limit <= matcher.reserve_,
                         "a pattern of the tokenizer takes too many steps for this text, at '",
                         printable(text.substr(from)), "'");
      matcher.reserve_ -= limit;
      found = try_match(text, from, /*is_search=*/false, limit, matcher);
    }
    if (*found) return true;
  }
  return false;
}

void Pattern::split(std::string_view text, Keep keep, Matcher& matcher, std::vector<std::string_view>& pieces) const {
  const auto add = [&](std::size_t begin, std::size_t end, Keep kind) {
    if (begin < end && (keep == Keep::all || keep == kind)) pieces.push_back(text.substr(begin, end - begin));
  };
  std::size_t done = 0, from = 0;  // `done` is the end of the last match
  bool has_matched = false;
  while (from <= text.size() && find(text, from, matcher)) {
    const std::size_t* const match = pcre2_get_ovector_pointer(match_of(matcher.match_));
    const std::size_t begin = match[0], end = match[1];
    if (begin == end && has_matched && end == done) {  // nothing, right behind a match
      from += from < text.size() ? character_length(text.substr(from)) : 1;
      continue;
    }
    add(done, begin, Keep::gaps);
    add(begin, end, Keep::matches);
    done = end;
    from = end;
    has_matched = true;
  }
  add(done, text.size(), Keep::gaps);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
