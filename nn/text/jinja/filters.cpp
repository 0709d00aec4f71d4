// Filters: what stands behind `|`.
#include "arguments.h"
#include "calls.h"
#include "texts.h"
#include "written.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

bool is_generator(const Value& value) { return value.is_list() && value.order() == Order::generator; }

Value text_by(std::string (*f)(std::string), const Value& value) { return Value::text(f(text_of(value))); }

Value pairs_of(const Value& value) {
  if (value.is_undefined()) return Value::list({}, Order::generator);
  check<ArgumentError>(value.is_dict(), "'items' of a value of type ", type_name(value));
  List pairs;
  for (const auto& [key, item] : value.as_dict()) pairs.push_back(Value::list({Value::text(key), item}, Order::tuple));
  return Value::list(std::move(pairs), Order::generator);
}

Value sorted_pairs(const Value& value) {
  check<ArgumentError>(!value.is_undefined(), "'dictsort' of a value that is not defined");
  const Value all = pairs_of(value);
  std::vector<std::pair<std::string, Value>> by_key;
  for (const Value& pair : all.as_list()) by_key.emplace_back(lower(pair.as_list()[0].as_text()), pair);
  std::ranges::stable_sort(by_key, {}, [](const auto& entry) -> const std::string& { return entry.first; });
  List pairs;
  for (auto& [key, pair] : by_key) pairs.push_back(std::move(pair));
  return Value::list(std::move(pairs));
}

Value length_of(const Value& value) {
  check<ArgumentError>(!is_generator(value), "'length' of a generator");
  return Value::integer(static_cast<std::int64_t>(items_of("length", value).size()));
}

Value with_default(const Value& value, const Given& given) {
  const bool also_false = given[1] && is_true(*given[1]);
  const bool is_replaced = value.is_undefined() || (also_false && !is_true(value));
  if (!is_replaced) return value;
  return given[0].value_or(Value::text(""));
}

// Without the fraction.
Value whole_part(double number) {
  constexpr double kMost = 9e18;
  check<ArgumentError>(std::abs(number) <= kMost, "'int' of a number beyond ", kMost);
  return Value::integer(Value{number}.as_integer());
}

// A number as Python reads it, without what is only allowed there: a plus, and underscores between digits.
std::string plain_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_between = text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1);
    if (!is_between) plain += text[i];
  }
  return plain;
}

// Python's int(), of a text that is a decimal number; otherwise the default.
Value integer_of(const Value& value, const Given& given) {
  check<ArgumentError>(!value.is_undefined(), "'int' of a value that is not defined");
  if (value.is<double>()) return whole_part(value.as_number());
  if (value.is_number()) return Value::integer(value.as_integer());
  const std::int64_t fallback = integer_or("int", given[0], 0);
  if (!value.is_text()) return Value::integer(fallback);
  const std::string digits = plain_number(without_space(value.as_text(), Ends::both));
  const char* const end = digits.data() + digits.size();
  std::int64_t number = 0;
  const auto [whole_end, whole_error] = std::from_chars(digits.data(), end, number);
  if (whole_end == end && whole_error == std::errc()) return Value::integer(number);
  double fraction = 0;
  const auto [fraction_end, error] = std::from_chars(digits.data(), end, fraction);
  const bool is_number = fraction_end == end && error == std::errc() && std::isfinite(fraction);
  return is_number ? whole_part(fraction) : Value::integer(fallback);
}

Value end_of(const Value& value, bool is_first) {
  check<ArgumentError>(is_first || !is_generator(value), "'last' of a generator");
  const List items = items_of(is_first ? "first" : "last", value);
  if (items.empty()) return {};
  if (is_generator(value)) value.set_taken(Taken::some);
  return is_first ? items.front() : items.back();
}

Value reversed(const Value& value) {
  check<ArgumentError>(!is_generator(value), "'reverse' of a generator");
  List items = items_of("reverse", value);
  std::ranges::reverse(items);
  if (!value.is_text()) return Value::list(std::move(items), Order::generator);
  std::string out;
  for (const Value& item : items) out += item.as_text();
  return Value::text(std::move(out));
}

Value field_of(const Value& value, const std::string& name) {
  const bool is_index = name.find_first_not_of("0123456789") == name.npos;
  check<ArgumentError>(!is_index && name.find('.') == name.npos, "the attribute '", printable(name),
                       "' is not supported");
  const Value* const found = value.is_dict() || value.is_namespace() ? value.field(name) : nullptr;
  if (found) return *found;
  check_no_method(name, value);
  return {};
}

Value joined(const Value& value, const Given& given) {
  const std::string separator = given[0] ? text_of(*given[0]) : "";
  std::string out;
  bool is_first = true;
  for (const Value& item : items_of("join", value)) {
    if (!is_first) out += separator;
    is_first = false;
    out += text_of(given[1] ? field_of(item, text_in("join", *given[1])) : item);
    check_bytes(out.size());
  }
  return Value::text(std::move(out));
}

// Is this a filter whose arguments name another filter or a test?
bool takes_another(std::string_view name);

// Of what map() and the like make another generator, which in Python takes them only when it is used itself.
List lent_items(std::string_view what, const Value& value) {
  List items = items_of(what, value);
  value.set_taken(Taken::some);
  return items;
}

// map('upper') or map(attribute='role')
Value mapped(const Value& value, const Arguments& arguments) {
  List out;
  std::size_t bytes = 0;
  const auto add = [&](Value made) {
    bytes += made.bytes();
    check_bytes(bytes);  // before there are many
    out.push_back(std::move(made));
  };
  if (arguments.values.empty()) {
    const Given given = bound("map", arguments, {"attribute"}, 1);
    for (const Value& item : lent_items("map", value)) add(field_of(item, text_in("map", *given[0])));
  } else {
    const std::string& name = text_in("map", arguments.values[0]);
    check<ArgumentError>(!takes_another(name), "'map' of '", name, "' is not supported");
    for (const Value& item : lent_items("map", value)) add(filter(name, item, rest_of(arguments, 1)));
  }
  return Value::list(std::move(out), Order::generator);
}

// select and reject, selectattr and rejectattr: those items of which a test of the item, or of a field, is `wanted`.
Value selected(const Value& value, const Arguments& arguments, bool has_field, bool wanted) {
  const std::size_t at = has_field ? 1 : 0;
  const std::vector<Value>& given = arguments.values;
  check<ArgumentError>(given.size() >= at, "'selectattr' lacks the name of an attribute");
  const std::string field = has_field ? text_in("selectattr", given[0]) : "";
  List out;
  for (const Value& item : lent_items("select", value)) {
    const Value tested = has_field ? field_of(item, field) : item;
    const bool has_test = given.size() > at;
    const bool holds =
        has_test ? test(text_in("select", given[at]), tested, rest_of(arguments, at + 1)) : is_true(tested);
    if (holds == wanted) out.push_back(item);
  }
  return Value::list(std::move(out), Order::generator);
}

Value trimmed(const Value& value, const Given& given) {
  const std::string text = text_of(value);
  if (!given[0]) return Value::text(std::string(without_space(text, Ends::both)));
  return Value::text(std::string(without_characters(text, text_in("trim", *given[0]), Ends::both)));
}

Value json_text(const Value& value, const Given& given) {
  constexpr std::int64_t kMostIndent = 16;
  const std::int64_t indent = given[1] && given[1]->is<None>() ? -1 : integer_or("tojson", given[1], -1);
  check<ArgumentError>(indent <= kMostIndent, "'tojson' with an indent of more than ", kMostIndent);
  return Value::text(
      json_of(value, {.indent = static_cast<int>(indent), .only_ascii = given[0] && is_true(*given[0])}));
}

Value safe(const Value& value) {
  Value made = Value::text(text_of(value));
  made.is_markup = true;
  return made;
}

struct Filter {
  std::vector<std::string> parameters;
  std::size_t required;
  Value (*run)(const Value&, const Given&);
};

const std::map<std::string, Filter, std::less<>>& filters() {
  static const std::map<std::string, Filter, std::less<>> kFilters{
      {"trim", {{"chars"}, 0, trimmed}},
      {"upper", {{}, 0, [](const Value& v, const Given&) { return text_by(upper, v); }}},
      {"lower", {{}, 0, [](const Value& v, const Given&) { return text_by(lower, v); }}},
      {"capitalize", {{}, 0, [](const Value& v, const Given&) { return text_by(capitalized, v); }}},
      {"title", {{}, 0, [](const Value& v, const Given&) { return text_by(titled, v); }}},
      {"string", {{}, 0, [](const Value& v, const Given&) { return Value::text(text_of(v)); }}},
      {"safe", {{}, 0, [](const Value& v, const Given&) { return safe(v); }}},
      {"int", {{"default"}, 0, integer_of}},
      {"list", {{}, 0, [](const Value& v, const Given&) { return Value::list(items_of("list", v)); }}},
      {"length", {{}, 0, [](const Value& v, const Given&) { return length_of(v); }}},
      {"count", {{}, 0, [](const Value& v, const Given&) { return length_of(v); }}},
      {"first", {{}, 0, [](const Value& v, const Given&) { return end_of(v, true); }}},
      {"last", {{}, 0, [](const Value& v, const Given&) { return end_of(v, false); }}},
      {"reverse", {{}, 0, [](const Value& v, const Given&) { return reversed(v); }}},
      {"items", {{}, 0, [](const Value& v, const Given&) { return pairs_of(v); }}},
      {"dictsort", {{}, 0, [](const Value& v, const Given&) { return sorted_pairs(v); }}},
      {"join", {{"d", "attribute"}, 0, joined}},
      {"replace",
       {{"old", "new", "count"},
        2,
        [](const Value& v, const Given& a) {
          Arguments arguments;
          for (const std::optional<Value>& one : a)
            if (one) arguments.values.push_back(*one);
          return method("replace", Value::text(text_of(v)), arguments);
        }}},
      {"default", {{"default_value", "boolean"}, 0, with_default}},
      {"d", {{"default_value", "boolean"}, 0, with_default}},
      {"tojson", {{"ensure_ascii", "indent"}, 0, json_text}}};
  return kFilters;
}

using Function = Value (*)(const Value&, const Arguments&);
const std::map<std::string, Function, std::less<>>& filters_of_items() {
  static const std::map<std::string, Function, std::less<>> kFilters{
      {"map", mapped},
      {"select", [](const Value& v, const Arguments& a) { return selected(v, a, false, true); }},
      {"reject", [](const Value& v, const Arguments& a) { return selected(v, a, false, false); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return selected(v, a, true, true); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return selected(v, a, true, false); }}};
  return kFilters;
}

bool takes_another(std::string_view name) { return filters_of_items().contains(name); }

}  // namespace

bool is_filter(std::string_view name) {
  // Not done, but in branches for tools of templates that people have, which no conversation here reaches.
  static constexpr std::string_view kOfTools[] = {"indent", "max", "min", "sort", "sum", "unique"};
  return filters().contains(name) || takes_another(name) || std::ranges::find(kOfTools, name) != std::end(kOfTools);
}

bool is_filter_of_items(std::string_view name) {
  static constexpr std::string_view kNames[] = {"count", "first", "join", "last", "length", "list", "reverse"};
  return takes_another(name) || std::ranges::find(kNames, name) != std::end(kNames);
}

Value filter(const std::string& name, const Value& value, const Arguments& arguments) {
  if (const auto found = filters_of_items().find(name); found != filters_of_items().end())
    return found->second(value, arguments);
  const auto found = filters().find(name);
  check<ArgumentError>(found != filters().end(), "the filter '", printable(name), "' is not supported");
  return found->second.run(value, bound(name, arguments, found->second.parameters, found->second.required));
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
