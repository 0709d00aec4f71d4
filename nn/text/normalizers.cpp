// One function for each normalizer; std::visit chooses.
#include "normalizers.h"

#include "alphabet.h"
#include "characters.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

bool is_between(char32_t code, char32_t first, char32_t last) { return code >= first && code <= last; }

template <class Drops>
std::string without(std::string_view text, const Drops& drops) {
  std::string kept;
  kept.reserve(text.size());
  each_character(text, [&](std::string_view character, char32_t code) {
    if (!drops(code)) kept += character;
  });
  return kept;
}

bool is_dropped_by_nmt(char32_t c) {
  return is_between(c, 0x1, 0x8) || c == 0xB || is_between(c, 0xE, 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

bool is_space_for_nmt(char32_t c) {
  const bool is_line = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x2028 || c == 0x2029;
  return is_line || c == 0x1680 || is_between(c, 0x200B, 0x200F) || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

// The blocks that BERT's authors take for Chinese.
bool is_ideograph(char32_t c) {
  const bool is_basic = is_between(c, 0x4E00, 0x9FFF) || is_between(c, 0x3400, 0x4DBF) || is_between(c, 0xF900, 0xFAFF);
  const bool is_extended = is_between(c, 0x20000, 0x2A6DF) || is_between(c, 0x2A700, 0x2B73F) ||
                           is_between(c, 0x2B740, 0x2B81F) || is_between(c, 0x2B920, 0x2CEAF);
  return is_basic || is_extended || is_between(c, 0x2F800, 0x2FA1F);
}

bool is_dropped_by_bert(char32_t c) {
  const bool is_line = c == '\t' || c == '\n' || c == '\r';
  return !is_line && (c == 0 || c == 0xFFFD || is_other(c));
}

std::string cleaned(std::string_view text) {
  std::string clean;
  each_character(text, [&](std::string_view character, char32_t code) {
    if (is_dropped_by_bert(code)) return;
    if (is_white_space(code)) {
      clean += ' ';
    } else {
      clean += character;
    }
  });
  return clean;
}

std::string spaced(std::string_view text) {
  std::string made;
  each_character(text, [&](std::string_view character, char32_t code) {
    const std::string_view space = is_ideograph(code) ? " " : "";
    made.append(space).append(character).append(space);
  });
  return made;
}

struct Normalizing {
  std::string_view text;
  TextPlace place;
  Matcher& matcher;
  std::size_t most;  // bytes of the result

  std::string operator()(const Normalize& n) const { return normal_form(text, n.form); }
  std::string operator()(const Lowercase&) const { return lower_case(text); }
  std::string operator()(const StripAccents&) const { return without(text, is_mark); }
  std::string operator()(const Strip& n) const {
    const std::size_t begin = n.left ? white_space_at_start(text) : 0;
    const std::size_t end = text.size() - (n.right ? white_space_at_end(text.substr(begin)) : 0);
    return std::string(text.substr(begin, end - begin));
  }
  std::string operator()(const Prepend& n) const {
    const bool is_prepended = !place.is_behind_byte && (!text.empty() || place.is_before_byte);
    return (is_prepended ? n.text : "") + std::string(text);
  }
  std::string operator()(const Replace& n) const {
    std::string made;
    std::size_t done = 0;
    n.pattern.each(text, matcher, [&](std::size_t begin, std::size_t end) {
      made.append(text, done, begin - done).append(n.text);
      done = end;
      check_size(made);
    });
    return made.append(text, done);
  }
  std::string operator()(const NmtSpaces&) const {
    std::string made;
    each_character(text, [&](std::string_view character, char32_t code) {
      if (is_space_for_nmt(code)) {
        made += ' ';
      } else if (!is_dropped_by_nmt(code)) {
        made += character;
      }
    });
    return made;
  }
  std::string operator()(const BertCleaning& n) const {
    std::string made(text);
    if (n.cleans) made = cleaned(made);
    if (n.spaces_ideographs) made = spaced(made);
    if (n.strips_accents) made = without(normal_form(made, NormalForm::nfd), is_nonspacing_mark);
    if (n.is_lower) made = lower_case(made);
    return made;
  }
  std::string operator()(const ToAlphabet&) const { return in_alphabet(text); }
  std::string operator()(const MapCharacters& n) const { return n.map.apply(text, most); }

  void check_size(const std::string& made) const {
    check<FormatError>(made.size() <= most, "the normalizer of the tokenizer makes more than ", most, " bytes of '",
                       printable(text), "'");
  }
};

}  // namespace

std::string normalized(std::span<const Normalizer> normalizers, std::string_view text, TextPlace place,
                       Matcher& matcher) {
  const std::size_t most = 64 * text.size() + (1 << 20);
  std::string made(text);
  for (const Normalizer& normalizer : normalizers) {
    const Normalizing normalizing{made, place, matcher, most};
    std::string next = std::visit(normalizing, normalizer);
    normalizing.check_size(next);
    made.swap(next);
  }
  return made;
}

bool needs_unicode_tables(const Normalizer& normalizer) {
  return std::holds_alternative<Normalize>(normalizer) || std::holds_alternative<Lowercase>(normalizer) ||
         std::holds_alternative<StripAccents>(normalizer) || std::holds_alternative<BertCleaning>(normalizer) ||
         std::holds_alternative<MapCharacters>(normalizer);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
