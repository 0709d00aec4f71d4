// The filters, tests, methods, operators and functions of a template.
//
// All throw ArgumentError for values that they are not for, and arguments that they do not have.
#pragma once

#include "value.h"

#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

bool is_filter(std::string_view name);
bool is_filter_of_items(std::string_view name);  // those of a text are its characters
Value filter(const std::string& name, const Value& value, const Arguments& arguments);

bool is_test(std::string_view name);
bool test(const std::string& name, const Value& value, const Arguments& arguments);

Value method(const std::string& name, const Value& of, const Arguments& arguments);
// Throws if this is the name of a method in Python, which Jinja takes before a field of that name. Here it can only be
// called.
void check_no_method(const std::string& name, const Value& of);
Value binary(const std::string& mark, const Value& left, const Value& right);

// range(), dict(), raise_exception() and strftime_now(); namespace() is the renderer's.
Dict global_functions();

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
