// Python's and Jinja's functions on texts, lists and dicts, of which templates of chats need these.
#include "jinja_functions.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

constexpr std::string_view kSpaces = " \t\n\r\v\f";

[[noreturn]] void refuse(const std::string& what, const Value& value) {
  fail<ArgumentError>(what, " of a value of type ", type_name(value));
}

const std::string& text_for(const char* what, const Value& value) {
  if (!value.is_text()) refuse(what, value);
  return value.as_text();
}

std::string argument_text(const Arguments& arguments, std::size_t place, const char* name, const char* fallback) {
  const Value* const found = arguments.find(place, name);
  return found ? text_of(*found) : fallback;
}

std::int64_t argument_integer(const Arguments& arguments, std::size_t place, const char* name, std::int64_t fallback) {
  const Value* const found = arguments.find(place, name);
  return found && found->is_number() ? found->as_integer() : fallback;
}

Value made_text(std::string text) {
  check<ArgumentError>(text.size() <= kMostBytes, "a text of ", text.size(), " bytes, more than ", kMostBytes);
  return Value::text(std::move(text));
}

// ---- texts ---------------------------------------------------------------------------------------

// ASCII letters alone; others stay as they are.
std::string mapped(std::string text, int (*f)(int)) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x80) c = static_cast<char>(f(static_cast<unsigned char>(c)));
  return text;
}

std::string capitalized(const std::string& text) {
  std::string out = mapped(text, std::tolower);
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out;
}

std::string titled(const std::string& text) {
  std::string out = mapped(text, std::tolower);
  bool begins = true;
  for (char& c : out) {
    const bool is_letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    if (is_letter && begins) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    begins = !is_letter;
  }
  return out;
}

std::string stripped(std::string text, const std::string& characters, bool from_left, bool from_right) {
  if (from_right) text.erase(text.find_last_not_of(characters) + 1);
  if (from_left) text.erase(0, std::min(text.find_first_not_of(characters), text.size()));
  return text;
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to, std::int64_t most) {
  std::string out;
  std::size_t at = 0;
  while (most != 0) {
    const std::size_t found = from.empty() ? text.npos : text.find(from, at);
    if (found == text.npos) break;
    out.append(text, at, found - at).append(to);
    at = found + from.size();
    --most;
    check<ArgumentError>(out.size() <= kMostBytes, "replace: a text of more than ", kMostBytes, " bytes");
  }
  return out.append(text, at);
}

List split(const std::string& text, const std::string& separator, std::int64_t most) {
  List parts;
  std::size_t at = 0;
  for (std::size_t found; most != 0 && (found = text.find(separator, at)) != text.npos; --most) {
    parts.push_back(Value::text(text.substr(at, found - at)));
    at = found + separator.size();
  }
  parts.push_back(Value::text(text.substr(at)));
  return parts;
}

List split_at_spaces(const std::string& text) {
  List parts;
  std::size_t begin = text.find_first_not_of(kSpaces);
  while (begin != text.npos) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    parts.push_back(Value::text(text.substr(begin, end - begin)));
    begin = text.find_first_not_of(kSpaces, end);
  }
  return parts;
}

List characters_of(const std::string& text) {
  List all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, character_length(std::string_view(text).substr(at)));
    all.push_back(Value::text(text.substr(at, length)));
    at += length;
  }
  return all;
}

Value method_of_text(const std::string& name, const std::string& text, const Arguments& arguments) {
  const std::string spaces(kSpaces);
  const std::string first = argument_text(arguments, 0, "", "");
  const bool has_first = arguments.find(0, "") && !arguments.find(0, "")->is<None>();
  const std::string characters = has_first ? first : spaces;
  if (name == "strip") return Value::text(stripped(text, characters, true, true));
  if (name == "lstrip") return Value::text(stripped(text, characters, true, false));
  if (name == "rstrip") return Value::text(stripped(text, characters, false, true));
  if (name == "upper") return Value::text(mapped(text, std::toupper));
  if (name == "lower") return Value::text(mapped(text, std::tolower));
  if (name == "capitalize") return Value::text(capitalized(text));
  if (name == "title") return Value::text(titled(text));
  if (name == "startswith") return {text.starts_with(first)};
  if (name == "endswith") return {text.ends_with(first)};
  if (name == "find") {
    const std::size_t found = text.find(first);
    const auto before = std::string_view(text).substr(0, found == text.npos ? 0 : found);
    const std::size_t characters_before = characters_of(std::string(before)).size();
    return Value::integer(found == text.npos ? -1 : static_cast<std::int64_t>(characters_before));
  }
  if (name == "replace") {
    const std::string to = argument_text(arguments, 1, "", "");
    return made_text(replaced(text, first, to, argument_integer(arguments, 2, "count", -1)));
  }
  if (name == "split") {
    if (!has_first) return Value::list(split_at_spaces(text));
    check<ArgumentError>(!first.empty(), "split: the separator is empty");
    return Value::list(split(text, first, argument_integer(arguments, 1, "maxsplit", -1)));
  }
  fail<ArgumentError>("a text has no method '", name, "' here");
}

// ---- lists and dicts -----------------------------------------------------------------------------

List items_of(const char* what, const Value& value) {
  if (value.is_list()) return value.as_list();
  if (value.is_text()) return characters_of(value.as_text());
  if (value.is_undefined()) return {};
  if (!value.is_dict()) refuse(what, value);
  List keys;
  for (const auto& [key, item] : value.as_dict()) keys.push_back(Value::text(key));
  return keys;
}

Value pairs_of(const Value& value) {
  List pairs;
  if (!value.is_dict()) refuse("items", value);
  for (const auto& [key, item] : value.as_dict()) pairs.push_back(Value::list({Value::text(key), item}));
  return Value::list(std::move(pairs));
}

Value method_of_dict(const std::string& name, const Value& of, const Arguments& arguments) {
  if (name == "items") return pairs_of(of);
  if (name == "keys") return Value::list(items_of("keys", of));
  if (name == "values") {
    List values;
    for (const auto& [key, item] : of.as_dict()) values.push_back(item);
    return Value::list(std::move(values));
  }
  if (name == "get") {
    const Value* const found = of.field(argument_text(arguments, 0, "key", ""));
    const Value* const fallback = arguments.find(1, "default");
    if (found) return *found;
    return fallback ? *fallback : Value{None()};
  }
  fail<ArgumentError>("a dict has no method '", name, "' here");
}

Value length_of(const Value& value) {
  const bool has_length = value.is_text() || value.is_list() || value.is_dict() || value.is_undefined();
  if (!has_length) refuse("length", value);
  return Value::integer(static_cast<std::int64_t>(items_of("length", value).size()));
}

Value field_of(const Value& value, const std::string& name) {
  if (!value.is_dict()) return {};
  const Value* const found = value.field(name);
  return found ? *found : Value{};
}

Value joined(const Value& value, const Arguments& arguments) {
  const std::string separator = argument_text(arguments, 0, "d", "");
  const Value* const attribute = arguments.find(1, "attribute");
  std::string out;
  bool is_first = true;
  for (const Value& item : items_of("join", value)) {
    if (!is_first) out += separator;
    is_first = false;
    out += text_of(attribute ? field_of(item, text_of(*attribute)) : item);
    check<ArgumentError>(out.size() <= kMostBytes, "join: a text of more than ", kMostBytes, " bytes");
  }
  return Value::text(std::move(out));
}

// map('upper') or map(attribute='role')
Value mapped_items(const Value& value, const Arguments& arguments) {
  List out;
  const auto attribute = arguments.named.find("attribute");
  const std::string name =
      attribute != arguments.named.end() ? text_of(attribute->second) : argument_text(arguments, 0, "", "");
  const bool is_field = attribute != arguments.named.end();
  check<ArgumentError>(is_field || is_filter(name), "map: the filter '", name, "' is not supported");
  Arguments rest;
  if (arguments.values.size() > 1) rest.values.assign(arguments.values.begin() + 1, arguments.values.end());
  for (const Value& item : items_of("map", value))
    out.push_back(is_field ? field_of(item, name) : filter(name, item, rest));
  return Value::list(std::move(out));
}

// select and reject, selectattr and rejectattr: those items of which a test of the item, or of a field, is `wanted`.
Value selected(const Value& value, const Arguments& arguments, bool has_field, bool wanted) {
  const std::size_t at = has_field ? 1 : 0;
  const std::string field = has_field ? argument_text(arguments, 0, "", "") : "";
  const std::string name = argument_text(arguments, at, "", "");
  check<ArgumentError>(name.empty() || is_test(name), "select: the test '", name, "' is not supported");
  Arguments rest;
  if (arguments.values.size() > at + 1)
    rest.values.assign(arguments.values.begin() + static_cast<std::ptrdiff_t>(at) + 1, arguments.values.end());
  List out;
  for (const Value& item : items_of("select", value)) {
    const Value tested = has_field ? field_of(item, field) : item;
    const bool holds = name.empty() ? is_true(tested) : test(name, tested, rest);
    if (holds == wanted) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value indented(const std::string& text, const Arguments& arguments) {
  const auto width =
      static_cast<std::size_t>(std::clamp<std::int64_t>(argument_integer(arguments, 0, "width", 4), 0, 100));
  const Value* const first = arguments.find(1, "first");
  const std::string blanks(width, ' ');
  std::string out = first && is_true(*first) ? blanks : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const bool has_more = i + 1 < text.size() && text[i + 1] != '\n';
    if (text[i] == '\n' && has_more) out += blanks;
  }
  return made_text(std::move(out));
}

Value as_integer(const Value& value, const Arguments& arguments) {
  if (value.is_number()) return Value::integer(value.as_integer());
  std::int64_t number = argument_integer(arguments, 0, "default", 0);
  const std::string text = text_of(value);
  std::from_chars(text.data(), text.data() + text.size(), number);
  return Value::integer(number);
}

Value end_of_list(const Value& value, bool is_first) {
  const List items = items_of("first", value);
  if (items.empty()) return {};
  return is_first ? items.front() : items.back();
}

using Filter = Value (*)(const Value&, const Arguments&);

const std::map<std::string, Filter, std::less<>> kFilters{
    {"trim", [](const Value& v, const Arguments& a) { return method("strip", Value::text(text_of(v)), a); }},
    {"upper", [](const Value& v, const Arguments&) { return Value::text(mapped(text_of(v), std::toupper)); }},
    {"lower", [](const Value& v, const Arguments&) { return Value::text(mapped(text_of(v), std::tolower)); }},
    {"capitalize", [](const Value& v, const Arguments&) { return Value::text(capitalized(text_of(v))); }},
    {"title", [](const Value& v, const Arguments&) { return Value::text(titled(text_of(v))); }},
    {"string", [](const Value& v, const Arguments&) { return Value::text(text_of(v)); }},
    {"safe", [](const Value& v, const Arguments&) { return v; }},
    {"int", as_integer},
    {"list", [](const Value& v, const Arguments&) { return Value::list(items_of("list", v)); }},
    {"length", [](const Value& v, const Arguments&) { return length_of(v); }},
    {"count", [](const Value& v, const Arguments&) { return length_of(v); }},
    {"first", [](const Value& v, const Arguments&) { return end_of_list(v, true); }},
    {"last", [](const Value& v, const Arguments&) { return end_of_list(v, false); }},
    {"items", [](const Value& v, const Arguments&) { return v.is_undefined() ? Value::list({}) : pairs_of(v); }},
    {"join", joined},
    {"map", mapped_items},
    {"select", [](const Value& v, const Arguments& a) { return selected(v, a, false, true); }},
    {"reject", [](const Value& v, const Arguments& a) { return selected(v, a, false, false); }},
    {"selectattr", [](const Value& v, const Arguments& a) { return selected(v, a, true, true); }},
    {"rejectattr", [](const Value& v, const Arguments& a) { return selected(v, a, true, false); }},
    {"indent", [](const Value& v, const Arguments& a) { return indented(text_for("indent", v), a); }},
    {"replace", [](const Value& v, const Arguments& a) { return method("replace", Value::text(text_of(v)), a); }},
    {"reverse",
     [](const Value& v, const Arguments&) {
       List items = items_of("reverse", v);
       std::ranges::reverse(items);
       return Value::list(std::move(items));
     }},
    {"tojson",
     [](const Value& v, const Arguments& a) {
       return made_text(json_of(v, static_cast<int>(std::min<std::int64_t>(argument_integer(a, 0, "indent", -1), 16))));
     }},
    {"default", nullptr},
    {"d", nullptr}};

Value with_default(const Value& value, const Arguments& arguments) {
  const Value* const also_false = arguments.find(1, "boolean");
  const bool is_replaced = value.is_undefined() || (also_false && is_true(*also_false) && !is_true(value));
  const Value* const other = arguments.find(0, "default_value");
  if (!is_replaced) return value;
  return other ? *other : Value::text("");
}

const Value& operand(const Arguments& arguments) {
  check<ArgumentError>(!arguments.values.empty(), "a test lacks what to compare with");
  return arguments.values[0];
}

bool is_whole(const Value& value) { return value.is<std::int64_t>(); }

using Test = bool (*)(const Value&, const Arguments&);

const std::map<std::string, Test, std::less<>> kTests{
    {"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
    {"none", [](const Value& v, const Arguments&) { return v.is<None>(); }},
    {"string", [](const Value& v, const Arguments&) { return v.is_text(); }},
    {"mapping", [](const Value& v, const Arguments&) { return v.is_dict(); }},
    {"iterable", [](const Value& v, const Arguments&) { return v.is_list() || v.is_text() || v.is_dict(); }},
    {"sequence", [](const Value& v, const Arguments&) { return v.is_list() || v.is_text() || v.is_dict(); }},
    {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
    {"integer", [](const Value& v, const Arguments&) { return is_whole(v); }},
    {"float", [](const Value& v, const Arguments&) { return v.is<double>(); }},
    {"boolean", [](const Value& v, const Arguments&) { return v.is<bool>(); }},
    {"true", [](const Value& v, const Arguments&) { return v.is<bool>() && is_true(v); }},
    {"false", [](const Value& v, const Arguments&) { return v.is<bool>() && !is_true(v); }},
    {"callable", [](const Value& v, const Arguments&) { return v.is<std::shared_ptr<Function>>(); }},
    {"odd", [](const Value& v, const Arguments&) { return is_whole(v) && v.as_integer() % 2 != 0; }},
    {"even", [](const Value& v, const Arguments&) { return is_whole(v) && v.as_integer() % 2 == 0; }},
    {"equalto", [](const Value& v, const Arguments& a) { return are_equal(v, operand(a)); }},
    {"eq", [](const Value& v, const Arguments& a) { return are_equal(v, operand(a)); }},
    {"ne", [](const Value& v, const Arguments& a) { return !are_equal(v, operand(a)); }},
    {"in", [](const Value& v, const Arguments& a) { return contains(operand(a), v); }},
    {"divisibleby", [](const Value& v, const Arguments& a) {
       const bool has_whole = is_whole(v) && is_whole(operand(a)) && operand(a).as_integer() != 0;
       return has_whole && v.as_integer() % operand(a).as_integer() == 0;
     }}};

}  // namespace

bool is_filter(std::string_view name) { return kFilters.contains(name); }
bool is_test(std::string_view name) { return kTests.contains(name); }

Value filter(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto found = kFilters.find(name);
  check<ArgumentError>(found != kFilters.end(), "the filter '", name, "' is not supported");
  return found->second ? found->second(value, arguments) : with_default(value, arguments);
}

bool test(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto found = kTests.find(name);
  check<ArgumentError>(found != kTests.end(), "the test '", name, "' is not supported");
  return found->second(value, arguments);
}

Value method(const std::string& name, const Value& of, const Arguments& arguments) {
  if (of.is_text()) return method_of_text(name, of.as_text(), arguments);
  if (of.is_dict()) return method_of_dict(name, of, arguments);
  refuse("the method '" + name + "'", of);
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
