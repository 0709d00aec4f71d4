// The values of expressions, and what a rendering may take.
#pragma once

#include "syntax.h"

#include "../../../autograd/core/scoped_value.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

struct Scope {
  std::map<std::string, Value> variables = {};
  Scope* around = nullptr;
};

// Undefined if no scope has it.
Value find(const Scope& scope, const std::string& name);
void set_field(Dict& fields, const std::string& name, const Value& value);

// All throw ArgumentError.
class Evaluator {
 public:
  Value value_of(const Expression& e, const Scope& scope);

  // Templates are not trusted: 3,000,000 steps at most. One is a part of the tree, 128 bytes that are made or 4 KiB
  // that are read; and 1,000 parts within each other.
  void step(std::size_t line);
  void charge(std::size_t made, std::size_t read = 0);
  ScopedValue<int> deeper();
  std::size_t line() const { return line_; }

 private:
  Value item_of(const Expression& e, const Scope& scope);
  Value list_of(const Expression& e, const Scope& scope);
  Value dict_of(const Expression& e, const Scope& scope);
  Value either(const Expression& e, const Scope& scope);
  Value choice(const Expression& e, const Scope& scope);
  Value slice(const Expression& e, const Scope& scope);
  Value called(const Expression& e, const Scope& scope);
  Value operated(const Expression& e, const Scope& scope);
  Arguments arguments(const Expression& e, const Scope& scope);
  Value make_namespace(const Arguments& given);

  std::deque<Namespace> namespaces_;
  std::uint64_t steps_ = 0;
  std::size_t line_ = 1;
  int depth_ = 0;
};

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
