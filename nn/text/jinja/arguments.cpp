// By position first, then by name, as Python binds them.
#include "arguments.h"

#include "texts.h"

#include "../../../autograd/core/check.h"

#include <algorithm>
#include <iterator>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

Given bound(std::string_view what, const Arguments& arguments, const std::vector<std::string>& parameters,
            std::size_t required) {
  const std::size_t given = arguments.values.size();
  check<ArgumentError>(given <= parameters.size(), "'", what, "' of ", given, " arguments, more than ",
                       parameters.size());
  Given all(arguments.values.begin(), arguments.values.end());
  all.resize(parameters.size());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(parameters, name);
    const auto place = static_cast<std::size_t>(found - parameters.begin());
    check<ArgumentError>(found != parameters.end() && place >= given, "'", what, "' has no argument '", name, "' here");
    all[place] = value;
  }
  for (std::size_t i = 0; i < required; ++i)
    check<ArgumentError>(all[i].has_value(), "'", what, "' lacks the argument '", parameters[i], "'");
  return all;
}

Arguments rest_of(const Arguments& arguments, std::size_t first) {
  const std::size_t skipped = std::min(first, arguments.values.size());
  return {.values = {arguments.values.begin() + static_cast<std::ptrdiff_t>(skipped), arguments.values.end()},
          .named = arguments.named};
}

const std::string& text_in(std::string_view what, const Value& value) {
  check<ArgumentError>(value.is_text(), "'", what, "' of a value of type ", type_name(value));
  return value.as_text();
}

std::int64_t integer_in(std::string_view what, const Value& value) {
  check<ArgumentError>(value.is_integer(), "'", what, "' of a value of type ", type_name(value));
  return value.as_integer();
}

std::int64_t integer_or(std::string_view what, const std::optional<Value>& value, std::int64_t fallback) {
  return value ? integer_in(what, *value) : fallback;
}

List items_of(std::string_view what, const Value& value) {
  if (value.is_list()) return value.take();
  if (value.is_text()) return characters_of(value.as_text());
  if (value.is_undefined()) return {};
  check<ArgumentError>(value.is_dict(), "'", what, "' of a value of type ", type_name(value));
  List keys;
  for (const auto& [key, item] : value.as_dict()) keys.push_back(Value::text(key));
  return keys;
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
