// utf8proc's tables.
#include "unicode.h"

#include "characters.h"

#include <stdexcept>

#ifdef SEPPO_UTF8PROC
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>
#endif

namespace seppo {
inline namespace SEPPO_ABI {

#ifdef SEPPO_UTF8PROC

namespace {

utf8proc_option_t options_of(NormalForm form) {
  const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool is_compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const int options = UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  return static_cast<utf8proc_option_t>(is_compatible ? options | UTF8PROC_COMPAT : options);
}

// Sorts each run of marks by their classes, as Unicode has them. utf8proc_map() takes quadratic time for a long run.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  const auto class_of = [](utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; };
  const auto is_starter = [&](utf8proc_int32_t code) { return class_of(code) == 0; };
  for (auto end = codes.begin(); end != codes.end();) {
    const auto begin = std::find_if_not(end, codes.end(), is_starter);
    end = std::find_if(begin, codes.end(), is_starter);
    std::ranges::stable_sort(begin, end, {}, class_of);
  }
}

utf8proc_category_t category_of(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

}  // namespace

bool has_unicode_tables() { return true; }

std::string normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  const utf8proc_option_t options = options_of(form);
  std::vector<utf8proc_int32_t> codes;
  each_character(text, [&](std::string_view, char32_t code) {
    std::array<utf8proc_int32_t, 32> parts;  // none has more than 18
    int unused = 0;
    const utf8proc_ssize_t size =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(), std::ssize(parts), options, &unused);
    codes.insert(codes.end(), parts.begin(), parts.begin() + size);
  });
  order_marks(codes);
  codes.resize(static_cast<std::size_t>(utf8proc_normalize_utf32(codes.data(), std::ssize(codes), options)));
  std::string made;
  for (const utf8proc_int32_t code : codes) append_utf8(made, static_cast<char32_t>(code));
  return made;
}

std::string lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  each_character(text, [&](std::string_view, char32_t code) {
    if (code == 0x130) {  // the one letter whose lower case is two characters
      lower += "i\xCC\x87";
    } else {
      append_utf8(lower, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    }
  });
  return lower;
}

bool is_mark(char32_t code) {
  const utf8proc_category_t category = category_of(code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_MN; }

bool is_other(char32_t code) { return category_of(code) >= UTF8PROC_CATEGORY_CC; }

std::size_t grapheme_length(std::string_view text) {
  std::size_t end = 0;
  char32_t before = 0;
  utf8proc_int32_t state = 0;
  while (end < text.size()) {
    const std::string_view character = text.substr(end, character_length(text.substr(end)));
    const char32_t code = code_point(character);
    const bool is_boundary = end > 0 && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                                                         static_cast<utf8proc_int32_t>(code), &state);
    if (is_boundary) break;
    before = code;
    end += character.size();
  }
  return end;
}

#else

namespace {

[[noreturn]] void refuse() { throw std::logic_error("seppo was built without utf8proc"); }

}  // namespace

bool has_unicode_tables() { return false; }
std::string normal_form(std::string_view, NormalForm) { refuse(); }
std::string lower_case(std::string_view) { refuse(); }
bool is_mark(char32_t) { refuse(); }
bool is_nonspacing_mark(char32_t) { refuse(); }
bool is_other(char32_t) { refuse(); }
std::size_t grapheme_length(std::string_view) { refuse(); }

#endif

}  // namespace SEPPO_ABI
}  // namespace seppo
