// Reading, writing and checking the fields of a config.
#include "config.h"

#include "../autograd/core/check.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

namespace seppo::inline SEPPO_ABI {
namespace {

using nlohmann::json;
using Names = std::span<const char* const>;

template <class... F>
struct Overloads : F... {
  using F::operator()...;
};
template <class... F>
Overloads(F...) -> Overloads<F...>;

// A visitor that is one function.
template <class F>
class Visit : public ConfigVisitor {
 public:
  explicit Visit(const F& f) : f_(f) {}

 private:
  void field(const Field& field) override { f_(field); }
  F f_;
};

std::string text_of(double number) {
  char text[32];
  const bool is_integral =
      number > -1e15 && number < 1e15 && number == static_cast<double>(static_cast<std::int64_t>(number));
  const auto end = is_integral ? std::to_chars(text, text + 32, static_cast<std::int64_t>(number)).ptr
                               : std::to_chars(text, text + 32, number).ptr;
  return {text, end};
}

std::string text_of(Range range) { return text_of(range.least) + ".." + text_of(range.most); }

std::string text_of(Names names) {
  std::string text = "one of";
  for (const char* name : names) text += (text.ends_with("one of") ? " " : ", ") + std::string(name);
  return text;
}

bool is_in(Range range, double value) { return value >= range.least && value <= range.most; }

// Safe on a terminal: escaped and short.
std::string shown(const json& value) {
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

void set_value(const Field& field, const json& found) {
  const auto require = [&](bool holds, const auto&... rule) {
    if (!holds) fail<FormatError>("config: '", field.name, "' is ", shown(found), ", not ", rule...);
  };
  const auto is_number = [&](const json& j) { return j.is_number() && is_in(field.range, j.get<double>()); };
  const auto is_natural = [&] {
    return found.is_number_unsigned() || (found.is_number_integer() && found.get<std::int64_t>() >= 0);
  };
  const std::string range = text_of(field.range);
  std::visit(Overloads{[&](int* value) {
                         require(found.is_number_integer() && is_number(found), "an integer in ", range);
                         *value = found.get<int>();
                       },
                       [&](double* value) {
                         require(is_number(found), "a number in ", range);
                         *value = found.get<double>();
                       },
                       [&](std::array<double, 2>* value) {
                         require(found.is_array() && found.size() == 2 && is_number(found[0]) && is_number(found[1]),
                                 "two numbers in ", range);
                         *value = found.get<std::array<double, 2>>();
                       },
                       [&](bool* value) {
                         require(found.is_boolean(), "true or false");
                         *value = found.get<bool>();
                       },
                       [&](std::uint64_t* value) {
                         require(is_natural(), "an integer in 0..2^64-1");
                         *value = found.get<std::uint64_t>();
                       },
                       [&](const Choice& choice) {
                         const std::string name = found.is_string() ? found.get<std::string>() : "";
                         const auto at = std::find(choice.names.begin(), choice.names.end(), name);
                         require(at != choice.names.end(), text_of(choice.names));
                         choice.set(static_cast<int>(at - choice.names.begin()));
                       },
                       [&](auto* text) {
                         require(found.is_string(), "text");
                         *text = found.get<std::string>();
                       }},
             field.value);
}

void check_value(const char* what, const Field& field) {
  const auto require = [&](double value) {
    check<ArgumentError>(is_in(field.range, value), what, ": ", field.name, " ", text_of(value), " is not in ",
                         text_of(field.range));
  };
  std::visit(Overloads{[&](const int* value) { require(*value); }, [&](const double* value) { require(*value); },
                       [&](const std::array<double, 2>* pair) { std::for_each(pair->begin(), pair->end(), require); },
                       [&](const Choice& choice) {
                         check<ArgumentError>(
                             choice.value >= 0 && static_cast<std::size_t>(choice.value) < choice.names.size(), what,
                             ": ", field.name, " ", choice.value, " is not ", text_of(choice.names));
                       },
                       [](const void*) {}},
             field.value);
}

}  // namespace

namespace detail {

void write_fields(json& object, Fields fields) {
  object = json::object();
  Visit writer([&](const Field& field) {
    check<ArgumentError>(!object.contains(field.name), "config: two fields are called ", field.name);
    object[field.name] = value_of(field);
  });
  fields(writer);
}

void read_fields(const json& object, Fields fields) {
  check<FormatError>(object.is_object(), "config: ", shown(object), " is not an object");
  std::set<std::string, std::less<>> known;
  Visit reader([&](const Field& field) {
    known.insert(field.name);
    if (field.is_added && !object.contains(field.name)) return;
    check<FormatError>(object.contains(field.name), "config: '", field.name, "' is missing");
    set_value(field, object[field.name]);
  });
  fields(reader);
  for (const auto& [key, value] : object.items())
    check<FormatError>(known.contains(key), "config: ", shown(key), " is not a known key");
}

void check_fields(const char* what, Fields fields) {
  Visit checker([&](const Field& field) { check_value(what, field); });
  fields(checker);
}

}  // namespace detail
}  // namespace seppo::inline SEPPO_ABI
