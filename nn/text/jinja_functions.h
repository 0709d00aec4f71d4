// The filters, tests, methods and functions that templates of chats use.
#pragma once

#include "jinja_value.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

// What a template may use at most.
constexpr std::size_t kMostBytes = std::size_t{1} << 24;  // of a text
constexpr std::size_t kMostItems = std::size_t{1} << 20;  // of a list

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

// All throw ArgumentError for values that they are not for; a method also if there is none of that name.
Value filter(const std::string& name, const Value& value, const Arguments& arguments);
bool test(const std::string& name, const Value& value, const Arguments& arguments);
Value method(const std::string& name, const Value& of, const Arguments& arguments);
Value binary(const std::string& mark, const Value& left, const Value& right);
// range(), namespace(), dict(), raise_exception() and strftime_now().
Dict global_functions();

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
