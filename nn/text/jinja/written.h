// Values as text: Python's str() and repr(), and JSON.
#pragma once

#include "value.h"

#include <string>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

// These throw ArgumentError for functions and namespaces, and for a text that becomes too large.
std::string text_of(const Value& value);
std::string literal_of(const Value& value);

struct JsonForm {
  int indent = -1;  // spaces a level; all on one line if it is negative
  bool only_ascii = false;
};
// What json.dumps() writes. Throws ArgumentError, also for what is not defined.
std::string json_of(const Value& value, JsonForm form);

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
