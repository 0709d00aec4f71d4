// A number has the shortest digits that give it back, as in Python.
#include "written.h"

#include "../characters.h"
#include "../unicode.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/utf8.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

// Python writes an exponent below 10^-4 and from 10^16 on, and a fraction everywhere else.
std::string text_of_double(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  const double size = std::abs(x);
  const bool has_exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  std::array<char, 64> text;
  const auto form = has_exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), x, form);
  std::string shown(text.data(), end);
  if (!has_exponent && shown.find('.') == shown.npos) shown += ".0";
  return shown;
}

// Python's isprintable(), but for characters that Unicode may yet have.
bool is_printable(char32_t code) {
  if (code == ' ') return true;
  return code >= 0x20 && (code < 0x7f || code >= 0xa0) && !is_white_space(code) &&
         !(has_unicode_tables() && is_other(code));
}

std::string escaped(std::string_view character, char32_t code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  if (is_printable(code)) return std::string(character);
  const auto [mark, digits] = code < 0x100     ? std::pair{"\\x", 2}
                              : code < 0x10000 ? std::pair{"\\u", 4}
                                               : std::pair{"\\U", 8};
  std::string made = mark;
  for (int i = digits; i-- > 0;) made += kDigits[code >> 4 * i & 15];
  return made;
}

std::string quoted(const std::string& text) {
  const bool has_single = text.find('\'') != text.npos;
  const bool has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  check<ArgumentError>(utf8_length(text) == text.size(), "a text that is not UTF-8, in a list");
  each_character(text, [&](std::string_view character, char32_t code) {
    if (character[0] == quote || code == '\\') out += '\\';
    out += escaped(character, code);
  });
  return out + quote;
}

void append(std::string& out, const std::string& more) {
  check_bytes(out.size() + more.size());
  out += more;
}

class JsonWriter {
 public:
  explicit JsonWriter(JsonForm form) : form_(form) {}

  std::string write(const Value& value) {
    if (value.is_text()) return text(value.as_text());
    if (value.is_list() && value.order() <= Order::tuple) return list(value.as_list());
    if (value.is_dict()) return dict(value.as_dict());
    if (value.is<bool>()) return is_true(value) ? "true" : "false";
    if (value.is_integer()) return text_of(value);
    if (value.is<double>()) return number(value.as_number());
    check<ArgumentError>(value.is<None>(), "tojson of a value of type ", type_name(value));
    return "null";
  }

 private:
  std::string text(const std::string& text) const {
    return nlohmann::json(text).dump(-1, ' ', form_.only_ascii, nlohmann::json::error_handler_t::replace);
  }
  static std::string number(double x) {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
    return text_of_double(x);
  }
  std::string list(const List& items) {
    std::string out;
    ++depth_;
    for (const Value& item : items) append(out, between(out) + write(item));
    --depth_;
    return "[" + closed(out) + "]";
  }
  std::string dict(const Dict& items) {
    std::string out;
    ++depth_;
    for (const auto& [key, item] : items) append(out, between(out) + text(key) + ": " + write(item));
    --depth_;
    return "{" + closed(out) + "}";
  }
  std::string between(const std::string& before) const {
    if (form_.indent < 0) return before.empty() ? "" : ", ";
    return (before.empty() ? "" : ",") + new_line();
  }
  std::string closed(const std::string& inner) const {
    return inner.empty() || form_.indent < 0 ? inner : inner + new_line();
  }
  std::string new_line() const { return "\n" + std::string(static_cast<std::size_t>(form_.indent * depth_), ' '); }

  JsonForm form_;
  int depth_ = 0;
};

std::string literal_of_list(const Value& list) {
  check<ArgumentError>(list.order() <= Order::tuple, "a value of type ", type_name(list), " as text");
  std::string out;
  for (const Value& item : list.as_list()) append(out, (out.empty() ? "" : ", ") + literal_of(item));
  if (list.order() == Order::list) return "[" + out + "]";
  return "(" + out + (list.as_list().size() == 1 ? ",)" : ")");
}

std::string literal_of_dict(const Dict& items) {
  std::string out;
  for (const auto& [key, item] : items) append(out, (out.empty() ? "" : ", ") + quoted(key) + ": " + literal_of(item));
  return "{" + out + "}";
}

}  // namespace

std::string text_of(const Value& value) {
  if (value.is_text()) return value.as_text();
  if (value.is_undefined()) return "";
  return literal_of(value);
}

std::string literal_of(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is<None>()) return "None";
  if (value.is<bool>()) return is_true(value) ? "True" : "False";
  if (value.is_integer()) return std::to_string(value.as_integer());
  if (value.is<double>()) return text_of_double(value.as_number());
  check<ArgumentError>(!value.is_markup, "a text that is safe, in a list");
  if (value.is_text()) return quoted(value.as_text());
  if (value.is_list()) return literal_of_list(value);
  check<ArgumentError>(value.is_dict(), "a value of type ", type_name(value), " as text");
  return literal_of_dict(value.as_dict());
}

std::string json_of(const Value& value, JsonForm form) { return JsonWriter(form).write(value); }

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
