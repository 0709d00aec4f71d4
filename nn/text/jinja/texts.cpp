// Texts are UTF-8; a byte that is none counts as a character.
#include "texts.h"

#include "../unicode.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/utf8.h"

#include <algorithm>
#include <cctype>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20);
  if (code >= 0x2000 && code <= 0x200a) return true;
  for (const char32_t one : U"\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000")
    if (code == one) return true;
  return false;
}

// Of a text that is not empty.
std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(1, character_length(text)));
}

std::string_view last_character(std::string_view text) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t length = 2; length <= std::min(kLongest, text.size()); ++length) {
    const std::string_view end = text.substr(text.size() - length);
    if (character_length(end) == length) return end;
  }
  return text.substr(text.size() - 1);
}

bool is_space(std::string_view character) { return character_length(character) > 0 && is_space(code_point(character)); }

// Without the characters at its ends that are `dropped`.
template <class Dropped>
std::string_view stripped(std::string_view text, Ends ends, const Dropped& dropped) {
  while (ends != Ends::right && !text.empty() && dropped(first_character(text)))
    text.remove_prefix(first_character(text).size());
  while (ends != Ends::left && !text.empty() && dropped(last_character(text)))
    text.remove_suffix(last_character(text).size());
  return text;
}

bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void check_ascii(const std::string& text, const char* what) {
  check<ArgumentError>(is_ascii(text), "'", what, "' of letters beyond ASCII is not supported");
}

void add_part(List& parts, std::string_view part) {
  parts.push_back(Value::text(std::string(part)));
  check_bytes(parts.size() * sizeof(Value));
}

char upper_letter(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }
char lower_letter(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// A sigma at the end of a word is another letter in Python, and a capital I with a dot becomes two.
std::string lower_case_of_each(const std::string& text) {
  check<ArgumentError>(utf8_length(text) == text.size(), "'lower' of a text that is not UTF-8");
  for (const char* const letter : {"\u03a3", "\u0130"})
    check<ArgumentError>(text.find(letter) == text.npos, "'lower' of ", letter, " is not supported");
  return lower_case(text);
}

}  // namespace

std::size_t leading_space(std::string_view text) { return text.size() - without_space(text, Ends::left).size(); }
std::size_t trailing_space(std::string_view text) { return text.size() - without_space(text, Ends::right).size(); }

std::string_view without_space(std::string_view text, Ends ends) {
  return stripped(text, ends, [](std::string_view character) { return is_space(character); });
}

std::string_view without_characters(std::string_view text, std::string_view characters, Ends ends) {
  return stripped(text, ends, [&](std::string_view character) { return characters.find(character) != text.npos; });
}

List characters_of(std::string_view text) {
  List all;
  for (; !text.empty(); text.remove_prefix(all.back().as_text().size())) add_part(all, first_character(text));
  return all;
}

List split_at_space(std::string_view text) {
  List parts;
  text = without_space(text, Ends::both);
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size() && leading_space(text.substr(end, 4)) == 0)
      end += first_character(text.substr(end)).size();
    add_part(parts, text.substr(0, end));
    text = without_space(text.substr(end), Ends::left);
  }
  return parts;
}

List split(std::string_view text, std::string_view separator, std::int64_t most) {
  List parts;
  for (std::size_t found; most != 0 && (found = text.find(separator)) != text.npos; --most) {
    add_part(parts, text.substr(0, found));
    text.remove_prefix(found + separator.size());
  }
  add_part(parts, text);
  return parts;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t most) {
  check<ArgumentError>(!from.empty(), "'replace' of an empty text is not supported");
  std::string out;
  for (std::size_t found; most != 0 && (found = text.find(from)) != text.npos; --most) {
    out.append(text.substr(0, found)).append(to);
    text.remove_prefix(found + from.size());
    check_bytes(out.size());
  }
  return out.append(text);
}

std::string upper(std::string text) {
  check_ascii(text, "upper");
  std::ranges::transform(text, text.begin(), upper_letter);
  return text;
}

std::string lower(std::string text) {
  if (!is_ascii(text) && has_unicode_tables()) return lower_case_of_each(text);
  check_ascii(text, "lower");
  std::ranges::transform(text, text.begin(), lower_letter);
  return text;
}

std::string capitalized(std::string text) {
  check_ascii(text, "capitalize");
  std::ranges::transform(text, text.begin(), lower_letter);
  if (!text.empty()) text[0] = upper_letter(text[0]);
  return text;
}

std::string titled(std::string text) {
  check_ascii(text, "title");
  constexpr std::string_view kBefore = "-({[<";
  bool begins = true;
  for (char& c : text) {
    c = begins ? upper_letter(c) : lower_letter(c);
    begins = kBefore.find(c) != kBefore.npos || is_space(static_cast<char32_t>(c));
  }
  return text;
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
