// The tree of a Jinja template.
#pragma once

#include "value.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class Operation {
  constant,
  name,       // text
  list,       // parts
  tuple,      // parts
  dict,       // parts: key, value, key, value ...
  attribute,  // parts[0].text
  item,       // parts[0][parts[1]]
  slice,      // parts[0][parts[1]:parts[2]:parts[3]], each of these three null if it is missing
  call,       // parts[0](the others, named)
  method,     // parts[0].text(the others, named)
  filter,     // parts[0] | text(the others, named)
  test,       // parts[0] is text(the others)
  negate,     // not parts[0]
  unary,      // text is + or -
  binary,     // text is the operator
  both,       // and
  either,     // or
  choice      // parts[0] if parts[1] else parts[2], which may be null
};

struct Expression {
  Operation operation = Operation::constant;
  std::string text = {};
  Value constant = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};
  std::size_t line = 1;
  int depth = 1;
};

struct Statement;
using Block = std::vector<Statement>;

enum class Kind {
  text,
  output,
  set,
  set_block,
  loop,
  condition,
  macro,
  generation,  // what an assistant says
  leave,
  proceed
};

struct Statement {
  Kind kind = Kind::text;
  std::string text = {};                     // text; the name of a macro; the namespace's field that is set
  std::vector<std::string> names = {};       // what is set; the loop's variables; the macro's parameters
  ExpressionPtr expression = {};             // output, value, what a loop is over, condition
  ExpressionPtr filter = {};                 // of a loop: if
  std::vector<ExpressionPtr> defaults = {};  // of the macro's parameters; null without one
  Block body = {}, otherwise = {};
  std::size_t line = 1;
};

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
