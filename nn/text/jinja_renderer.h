// Renders the tree of a Jinja template.
#pragma once

#include "jinja_syntax.h"

#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

// The text that a template makes of these variables. Throws FormatError, "NAME:LINE: ...", for what goes wrong, and for
// a template that takes more than 10^7 steps or writes more than 16 MiB.
std::string render(const Block& statements, const Dict& variables, std::string_view name);

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
