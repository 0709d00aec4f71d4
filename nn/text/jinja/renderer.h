// Renders the tree of a Jinja template.
#pragma once

#include "syntax.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

struct Rendered {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> marked;  // from byte to byte, what {% generation %} is around
};

// What a template makes of these variables. Throws FormatError, "NAME:LINE: ...", for what goes wrong, and for a
// template that takes more than 3,000,000 steps, makes a value of more than 16 MiB, or writes more than that.
Rendered render(const Block& statements, const Dict& variables, std::string_view name);

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
