// Values of Jinja templates, with Python's meaning of truth and equality.
#pragma once

#include "../../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <functional>
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
struct Sequence;
struct Mapping;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion

// Of a call: by position and by name.
struct Arguments {
  List values;
  Dict named;
};
using Function = std::function<Value(const Arguments&)>;

struct Undefined {
  bool operator==(const Undefined&) const = default;
};
struct None {
  bool operator==(const None&) const = default;
};

// How Python has the items of a list: the last three are never written, and of a view or generator none has a place.
enum class Order { list, tuple, range, view, generator };

// How much of a generator has been used.
enum class Taken { none, some, all };

// What namespace() makes. The rendering owns it, so that one that holds itself is freed too.
struct Namespace {
  Dict fields;
};

// Texts, lists and dicts do not change once made. Their makers throw ArgumentError for what is too large.
struct Value {
  using Text = std::shared_ptr<const std::string>;
  std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const Sequence>,
               std::shared_ptr<const Mapping>, Namespace*, std::shared_ptr<const Function>>
      held = Undefined{};
  bool is_markup = false;  // a text from `safe`, to which Python would add only what it has escaped

  static Value text(std::string text);
  static Value integer(std::int64_t number) { return {number}; }
  static Value list(List items, Order order = Order::list);
  static Value dict(Dict items);
  static Value function(Function f) { return {std::make_shared<const Function>(std::move(f))}; }

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(held);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_text() const { return is<Text>(); }
  bool is_list() const { return is<std::shared_ptr<const Sequence>>(); }
  bool is_dict() const { return is<std::shared_ptr<const Mapping>>(); }
  bool is_namespace() const { return is<Namespace*>(); }
  bool is_function() const { return is<std::shared_ptr<const Function>>(); }
  bool is_number() const { return is<bool>() || is_integer() || is<double>(); }
  bool is_integer() const { return is<std::int64_t>(); }

  const std::string& as_text() const { return *std::get<Text>(held); }
  const List& as_list() const;
  // Of a list, all of it; a generator gives it once, and nothing afterwards. Throws ArgumentError if some was taken.
  const List& take() const;
  void set_taken(Taken taken) const;               // of a generator, instead of all
  Order order() const;                             // of a list
  const Dict& as_dict() const;                     // of a dict or a namespace
  double as_number() const;                        // of a number
  std::int64_t as_integer() const;                 // of a number, without its fraction
  const Value* field(std::string_view key) const;  // of a dict or a namespace; null without it

  std::size_t bytes() const;  // of the texts in it, and 16 a value
  int depth() const;          // of lists and dicts within each other
};

struct Sequence {
  List items;
  Order order = Order::list;
  std::size_t bytes = 0;
  int depth = 1;
  mutable Taken taken = Taken::none;  // of a generator
};
struct Mapping {
  Dict items;
  std::size_t bytes = 0;
  int depth = 1;
};

constexpr std::size_t kMostBytes = std::size_t{1} << 24;  // of a value
constexpr int kMostDepth = 32;
constexpr std::size_t kMostFields = 1024;  // of a dict

// Throws ArgumentError for a text that would be larger than a value may be.
void check_bytes(std::size_t bytes);

bool is_true(const Value& value);
bool are_equal(const Value& a, const Value& b);
// Python's `in`. Throws ArgumentError for values that have none, or only of texts.
bool contains(const Value& all, const Value& item);
// Can it be indexed?
bool has_places(const Value& value);
// What Python calls the type.
const char* type_name(const Value& value);

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
