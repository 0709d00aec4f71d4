// Cuts a Jinja template into its text and its tags, and these into tokens.
#pragma once

#include "../../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

struct Token {
  enum class Type { name, text, integer, decimal, mark, end } type = Type::end;
  std::string text = {};  // of a text, what it stands for
};

// A stretch of text, or the tokens between {{ and }} or {% and %}.
struct Piece {
  enum class Type { text, output, block } type = Type::text;
  std::string text = {};  // of a tag, as it is written
  std::vector<Token> tokens = {};
  std::size_t line = 1;
};

// With trim_blocks and lstrip_blocks, as Hugging Face's templates are written for: the line feed after a block is left
// out, and blanks before a block that begins a line. Throws FormatError, "NAME:LINE: ...".
std::vector<Piece> cut_template(std::string_view source, std::string_view name);

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
