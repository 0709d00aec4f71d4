// Reading, writing and checking the fields of a config.
#include "config.h"

#include "../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using nlohmann::json;
using Names = std::span<const char* const>;

template <class... F>
struct Overloads : F... {
  using F::operator()...;
};
template <class... F>
Overloads(F...) -> Overloads<F...>;

std::string text_of(double number) {
  const bool is_whole = std::abs(number) < 1e15 && number == std::trunc(number);
  return is_whole ? std::to_string(static_cast<std::int64_t>(number)) : concat_text(number);
}

std::string text_of(Range range) { return text_of(range.least) + ".." + text_of(range.most); }

std::string text_of(Names names) {
  std::string text = "one of";
  for (const char* name : names) text += (text.ends_with("one of") ? " " : ", ") + std::string(name);
  return text;
}

bool is_in(Range range, double value) { return value >= range.least && value <= range.most; }

// Safe on a terminal: escaped and short. Values within values are not shown, since dump() uses stack for each level.
std::string shown(const json& value) {
  for (const json& child : value)
    if (child.is_structured()) return "a nested " + std::string(value.type_name());
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 60) + "...";
}

json value_of(const Field& field) {
  return std::visit(
      Overloads{[](const std::filesystem::path* path) { return json(path->string()); },
                [](const Choice& choice) { return json(choice.names[static_cast<std::size_t>(choice.value)]); },
                [](const auto* value) { return json(*value); }},
      field.value);
}

// The rule for a field's value, in words, and whether the value found obeys it.
std::pair<std::string, bool> rule_of(const Field& field, const json& found) {
  using Rule = std::pair<std::string, bool>;
  const std::string range = text_of(field.range);
  const auto is_in_range = [&](const json& j) { return j.is_number() && is_in(field.range, j.get<double>()); };
  return std::visit(
      Overloads{[&](int*) { return Rule("an integer in " + range, found.is_number_integer() && is_in_range(found)); },
                [&](double*) { return Rule("a number in " + range, is_in_range(found)); },
                [&](std::array<double, 2>*) {
                  return Rule("two numbers in " + range,
                              found.is_array() && found.size() == 2 && is_in_range(found[0]) && is_in_range(found[1]));
                },
                [&](bool*) { return Rule("true or false", found.is_boolean()); },
                [&](std::uint64_t*) {
                  return Rule(
                      "an integer in 0..2^64-1",
                      found.is_number_unsigned() || (found.is_number_integer() && found.get<std::int64_t>() >= 0));
                },
                [&](const Choice& choice) {
                  return Rule(text_of(choice.names),
                              found.is_string() && std::ranges::count(choice.names, found.get<std::string>()) > 0);
                },
                [&](const auto*) { return Rule("text", found.is_string()); }},
      field.value);
}

void set_value(const Field& field, const json& found) {
  const auto [rule, holds] = rule_of(field, found);
  if (!holds) fail<FormatError>("config: '", field.name, "' is ", shown(found), ", not ", rule);
  const auto choose = [&](const Choice& choice) {
    choice.set(static_cast<int>(std::ranges::find(choice.names, found.get<std::string>()) - choice.names.begin()));
  };
  std::visit(Overloads{choose, [&](std::filesystem::path* path) { *path = found.get<std::string>(); },
                       [&](auto* value) { found.get_to(*value); }},
             field.value);
}

}  // namespace

namespace detail {

json write_fields(const std::vector<Field>& fields) {
  json object = json::object();
  for (const Field& field : fields) {
    check<ArgumentError>(!object.contains(field.name), "config: two fields are called ", field.name);
    object[field.name] = value_of(field);
  }
  return object;
}

void read_fields(const json& object, const std::vector<Field>& fields) {
  check<FormatError>(object.is_object(), "config: ", shown(object), " is not an object");
  for (const Field& field : fields) {
    if (field.is_added && !object.contains(field.name)) continue;
    check<FormatError>(object.contains(field.name), "config: '", field.name, "' is missing");
    set_value(field, object[field.name]);
  }
  for (const auto& [key, value] : object.items())
    check<FormatError>(std::ranges::count(fields, key, &Field::name) > 0, "config: ", shown(key),
                       " is not a known key");
}

void check_fields(const char* what, const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    const auto require = [&](double value) {
      check<ArgumentError>(is_in(field.range, value), what, ": ", field.name, " ", text_of(value), " is not in ",
                           text_of(field.range));
    };
    std::visit(Overloads{[&](const int* value) { require(*value); }, [&](const double* value) { require(*value); },
                         [&](const std::array<double, 2>* pair) { std::ranges::for_each(*pair, require); },
                         [&](const Choice& choice) {
                           check<ArgumentError>(
                               choice.value >= 0 && static_cast<std::size_t>(choice.value) < choice.names.size(), what,
                               ": ", field.name, " ", choice.value, " is not ", text_of(choice.names));
                         },
                         [](const void*) {}},
               field.value);
  }
}

}  // namespace detail
}  // namespace SEPPO_ABI
}  // namespace seppo
