// The tree of a Jinja template, as far as templates of chats use the language.
#pragma once

#include "syntax.h"

#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

// Throws FormatError, "NAME:LINE: TAG: ...", for what is not Jinja, or a construct that is not done here.
Block parse_template(std::string_view source, std::string_view name);

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
