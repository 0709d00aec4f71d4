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

// How a value is written.
template <class T>
json written(const T* value) {
  return *value;
}
json written(const std::filesystem::path* path) { return path->string(); }
json written(const Choice& choice) { return choice.names[static_cast<std::size_t>(choice.value())]; }

// What is expected of a field in a file, in words.
std::string expected(const int*, Range range) { return "an integer in " + text_of(range); }
std::string expected(const double*, Range range) { return "a number in " + text_of(range); }
std::string expected(const std::array<double, 2>*, Range range) { return "two numbers in " + text_of(range); }
std::string expected(const bool*, Range) { return "true or false"; }
std::string expected(const std::uint64_t*, Range) { return "an integer in 0..2^64-1"; }
std::string expected(const Choice& choice, Range) { return text_of(choice.names); }
std::string expected(const void*, Range) { return "text"; }

bool is_number_in(const json& found, Range range) { return found.is_number() && is_in(range, found.get<double>()); }

// Whether what a file holds is as expected.
bool is_valid(const json& found, const int*, Range range) {
  return found.is_number_integer() && is_number_in(found, range);
}
bool is_valid(const json& found, const double*, Range range) { return is_number_in(found, range); }
bool is_valid(const json& found, const std::array<double, 2>*, Range range) {
  if (!found.is_array() || found.size() != 2) return false;
  return is_number_in(found[0], range) && is_number_in(found[1], range);
}
bool is_valid(const json& found, const bool*, Range) { return found.is_boolean(); }
bool is_valid(const json& found, const std::uint64_t*, Range) {
  if (found.is_number_unsigned()) return true;
  return found.is_number_integer() && found.get<std::int64_t>() >= 0;
}
bool is_valid(const json& found, const Choice& choice, Range) {
  return found.is_string() && std::ranges::count(choice.names, found.get<std::string>()) > 0;
}
bool is_valid(const json& found, const void*, Range) { return found.is_string(); }

// Sets a value to what a file holds.
template <class T>
void assign(const json& found, T* value) {
  found.get_to(*value);
}
void assign(const json& found, std::filesystem::path* path) { *path = found.get<std::string>(); }
void assign(const json& found, const Choice& choice) {
  const auto chosen = std::ranges::find(choice.names, found.get<std::string>());
  choice.set(static_cast<int>(chosen - choice.names.begin()));
}

void read_field(const json& found, const Field& field) {
  const auto read = [&](const auto& value) {
    if (!is_valid(found, value, field.range))
      fail<FormatError>("config: '", field.name, "' is ", shown(found), ", not ", expected(value, field.range));
    assign(found, value);
  };
  std::visit(read, field.value);
}

// Checks a value that code has set. Types that are not listed have no rule.
void check_value(const char* what, const Field& field, double value) {
  check<ArgumentError>(is_in(field.range, value), what, ": ", field.name, " ", text_of(value), " is not in ",
                       text_of(field.range));
}
void check_value(const char* what, const Field& field, const int* value) { check_value(what, field, double(*value)); }
void check_value(const char* what, const Field& field, const double* value) { check_value(what, field, *value); }
void check_value(const char* what, const Field& field, const std::array<double, 2>* pair) {
  for (const double value : *pair) check_value(what, field, value);
}
void check_value(const char* what, const Field& field, const Choice& choice) {
  const int value = choice.value();
  check<ArgumentError>(value >= 0 && static_cast<std::size_t>(value) < choice.names.size(), what, ": ", field.name, " ",
                       value, " is not ", text_of(choice.names));
}
void check_value(const char*, const Field&, const void*) {}

}  // namespace

namespace detail {

json write_fields(const std::vector<Field>& fields) {
  json object = json::object();
  for (const Field& field : fields) {
    check<ArgumentError>(!object.contains(field.name), "config: two fields are called ", field.name);
    object[field.name] = std::visit([](const auto& value) { return written(value); }, field.value);
  }
  return object;
}

void read_fields(const json& object, const std::vector<Field>& fields) {
  check<FormatError>(object.is_object(), "config: ", shown(object), " is not an object");
  for (const Field& field : fields) {
    const bool is_there = object.contains(field.name);
    check<FormatError>(is_there || field.options.may_be_missing, "config: '", field.name, "' is missing");
    if (is_there) read_field(object[field.name], field);
  }
  for (const auto& [key, value] : object.items())
    check<FormatError>(std::ranges::count(fields, key, &Field::name) > 0, "config: ", shown(key),
                       " is not a known key");
}

void check_fields(const char* what, const std::vector<Field>& fields) {
  for (const Field& field : fields)
    std::visit([&](const auto& value) { check_value(what, field, value); }, field.value);
}

}  // namespace detail
}  // namespace SEPPO_ABI
}  // namespace seppo
