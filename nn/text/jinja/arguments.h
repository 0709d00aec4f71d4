// What a function was given, by its parameters' names.
#pragma once

#include "value.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

// The value of each parameter; none for one that is not given. Throws ArgumentError if one of the first `required` is
// missing, or for an argument that is none of them.
using Given = std::vector<std::optional<Value>>;
Given bound(std::string_view what, const Arguments& arguments, const std::vector<std::string>& parameters,
            std::size_t required);

// The arguments without the first ones.
Arguments rest_of(const Arguments& arguments, std::size_t first);

// Throw ArgumentError for values of another type.
const std::string& text_in(std::string_view what, const Value& value);
std::int64_t integer_in(std::string_view what, const Value& value);
std::int64_t integer_or(std::string_view what, const std::optional<Value>& value, std::int64_t fallback);
// What a loop runs over: the items of a list, the keys of a dict, the characters of a text.
List items_of(std::string_view what, const Value& value);

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
