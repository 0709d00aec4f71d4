// Values of Jinja templates, with Python's meaning of truth, equality and text.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

struct Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion

// Of a call: by position and by name.
struct Arguments {
  List values;
  std::map<std::string, Value> named;

  // The argument at this place or of this name; null if there is none.
  const Value* find(std::size_t place, const char* name) const;
};
using Function = std::function<Value(const Arguments&)>;

struct Undefined {};
struct None {};

struct Value {
  std::variant<Undefined, None, bool, std::int64_t, double, std::string, std::shared_ptr<List>, std::shared_ptr<Dict>,
               std::shared_ptr<Function>>
      held = Undefined{};
  bool is_namespace = false;  // a dict whose fields `set` may change

  static Value text(std::string text) { return {std::move(text)}; }
  static Value integer(std::int64_t number) { return {number}; }
  static Value list(List items) { return {std::make_shared<List>(std::move(items))}; }
  static Value dict(Dict items) { return {std::make_shared<Dict>(std::move(items))}; }
  static Value function(Function f) { return {std::make_shared<Function>(std::move(f))}; }

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(held);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_text() const { return is<std::string>(); }
  bool is_list() const { return is<std::shared_ptr<List>>(); }
  bool is_dict() const { return is<std::shared_ptr<Dict>>(); }
  bool is_number() const { return is<bool>() || is<std::int64_t>() || is<double>(); }
  const std::string& as_text() const { return std::get<std::string>(held); }
  List& as_list() const { return *std::get<std::shared_ptr<List>>(held); }
  Dict& as_dict() const { return *std::get<std::shared_ptr<Dict>>(held); }
  double as_number() const;                        // of a number
  std::int64_t as_integer() const;                 // of a number, without its fraction
  const Value* field(std::string_view key) const;  // of a dict; null without it
};

bool is_true(const Value& value);
bool are_equal(const Value& a, const Value& b);
bool contains(const Value& all, const Value& item);
// str() and repr() of Python.
std::string text_of(const Value& value);
std::string literal_of(const Value& value);
// What json.dumps() writes, with `indent` spaces a level, or on one line without.
std::string json_of(const Value& value, int indent);
// What Python calls the type.
const char* type_name(const Value& value);

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
