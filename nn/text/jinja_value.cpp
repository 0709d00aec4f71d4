// Truth, equality and text as Python has them.
#include "jinja_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

// The shortest decimal form, with a fraction or an exponent.
std::string text_of_double(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), x);
  std::string shown(text.data(), end);
  if (shown.find_first_of(".e") == shown.npos) shown += ".0";
  return shown;
}

std::string quoted(const std::string& text) {
  const bool has_single = text.find('\'') != text.npos;
  const bool has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      if (c == quote || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + quote;
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Writes JSON with Python's separators.
class JsonWriter {
 public:
  explicit JsonWriter(int indent) : indent_(indent) {}

  std::string write(const Value& value) {
    if (value.is_text()) return json_text(value.as_text());
    if (value.is_list()) return write_list(value.as_list());
    if (value.is_dict()) return write_dict(value.as_dict());
    if (value.is<bool>()) return is_true(value) ? "true" : "false";
    if (value.is_number()) return text_of(value);
    return "null";
  }

 private:
  std::string write_list(const List& items) {
    std::string out;
    ++depth_;
    for (const Value& item : items) out += between(out) + write(item);
    --depth_;
    return "[" + closed(out) + "]";
  }
  std::string write_dict(const Dict& items) {
    std::string out;
    ++depth_;
    for (const auto& [key, item] : items) out += between(out) + json_text(key) + ": " + write(item);
    --depth_;
    return "{" + closed(out) + "}";
  }
  std::string between(const std::string& before) const {
    const std::string comma = before.empty() ? "" : ",";
    if (indent_ >= 0) return comma + new_line();
    return before.empty() ? "" : ", ";
  }
  std::string closed(const std::string& inner) const {
    return inner.empty() || indent_ < 0 ? inner : inner + new_line();
  }
  std::string new_line() const { return "\n" + std::string(static_cast<std::size_t>(indent_ * depth_), ' '); }

  int indent_, depth_ = 0;
};

}  // namespace

const Value* Arguments::find(std::size_t place, const char* name) const {
  if (place < values.size()) return &values[place];
  const auto found = named.find(name);
  return found == named.end() ? nullptr : &found->second;
}

double Value::as_number() const {
  if (is<double>()) return std::get<double>(held);
  return static_cast<double>(as_integer());
}

std::int64_t Value::as_integer() const {
  constexpr double kMost = 9e18;
  if (is<bool>()) return std::get<bool>(held) ? 1 : 0;
  if (is<double>()) return static_cast<std::int64_t>(std::clamp(std::get<double>(held), -kMost, kMost));
  return std::get<std::int64_t>(held);
}

const Value* Value::field(std::string_view key) const {
  for (const auto& [name, value] : as_dict())
    if (name == key) return &value;
  return nullptr;
}

bool is_true(const Value& value) {
  if (value.is_number()) return value.as_number() != 0;
  if (value.is_text()) return !value.as_text().empty();
  if (value.is_list()) return !value.as_list().empty();
  if (value.is_dict()) return value.is_namespace || !value.as_dict().empty();
  return value.is<std::shared_ptr<Function>>();
}

bool are_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.as_number() == b.as_number();
  if (a.held.index() != b.held.index()) return false;
  if (a.is_text()) return a.as_text() == b.as_text();
  if (a.is_list()) return std::ranges::equal(a.as_list(), b.as_list(), are_equal);
  if (!a.is_dict()) return true;
  if (a.as_dict().size() != b.as_dict().size()) return false;
  return std::ranges::all_of(a.as_dict(), [&](const auto& item) {
    const Value* const other = b.field(item.first);
    return other && are_equal(item.second, *other);
  });
}

bool contains(const Value& all, const Value& item) {
  if (all.is_text()) return item.is_text() && all.as_text().find(item.as_text()) != std::string::npos;
  if (all.is_dict()) return item.is_text() && all.field(item.as_text());
  if (!all.is_list()) return false;
  return std::ranges::any_of(all.as_list(), [&](const Value& one) { return are_equal(one, item); });
}

std::string text_of(const Value& value) {
  if (value.is_text()) return value.as_text();
  if (value.is_undefined()) return "";
  return literal_of(value);
}

std::string literal_of(const Value& value) {
  if (value.is_text()) return quoted(value.as_text());
  if (value.is<None>()) return "None";
  if (value.is<bool>()) return is_true(value) ? "True" : "False";
  if (value.is<std::int64_t>()) return std::to_string(value.as_integer());
  if (value.is<double>()) return text_of_double(value.as_number());
  std::string out;
  if (value.is_list()) {
    for (const Value& item : value.as_list()) out += (out.empty() ? "" : ", ") + literal_of(item);
    return "[" + out + "]";
  }
  if (!value.is_dict()) return "Undefined";
  for (const auto& [key, item] : value.as_dict())
    out += (out.empty() ? "" : ", ") + quoted(key) + ": " + literal_of(item);
  return "{" + out + "}";
}

std::string json_of(const Value& value, int indent) { return JsonWriter(indent).write(value); }

const char* type_name(const Value& value) {
  static constexpr const char* kNames[] = {"undefined", "None", "bool", "int",     "float",
                                           "str",       "list", "dict", "function"};
  return kNames[value.held.index()];
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
