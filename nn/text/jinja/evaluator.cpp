// Python's meaning of indices and slices, and Jinja's of what is missing.
#include "evaluator.h"

#include "arguments.h"
#include "calls.h"
#include "texts.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"

#include <algorithm>
#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

constexpr std::uint64_t kMostSteps = 3'000'000;
constexpr int kMostLevels = 1000;

// Of a value, what it takes to copy it: the values within are shared.
std::size_t own_bytes(const Value& value) {
  if (value.is_text()) return value.as_text().size();
  if (value.is_list()) return value.as_list().size() * sizeof(Value);
  return value.is_dict() ? value.as_dict().size() * sizeof(Value) : 0;
}

// What it takes to make a value of each character.
std::size_t bytes_of_characters(const Value& text) { return text.as_text().size() * sizeof(Value); }

void check_defined(const Value& of, const std::string& part) {
  check<ArgumentError>(!of.is_undefined(), "'", printable(part), "' of a value that is not defined");
}

Value attribute(const Value& of, const std::string& name) {
  check_defined(of, name);
  check_no_method(name, of);
  const Value* const found = of.is_dict() || of.is_namespace() ? of.field(name) : nullptr;
  return found ? *found : Value{};
}

Value item(const Value& of, const Value& index) {
  const Value* const found = index.is_text() && of.is_dict() ? of.field(index.as_text()) : nullptr;
  if (found) return *found;
  if (index.is_text()) return attribute(of, index.as_text());
  check_defined(of, "[]");
  const bool is_place = index.is_integer() || index.is<bool>();
  if (!is_place || !has_places(of)) return {};
  const List characters = of.is_text() ? characters_of(of.as_text()) : List{};
  const List& items = of.is_list() ? of.as_list() : characters;  // not a copy
  const auto size = static_cast<std::int64_t>(items.size());
  const std::int64_t at = index.as_integer() < 0 ? index.as_integer() + size : index.as_integer();
  if (at < 0 || at >= size) return {};
  return items[static_cast<std::size_t>(at)];
}

// The parts of items[first:last:step]; an end that is missing or beyond is that of the list.
List sliced(const List& items, const std::optional<Value>& first, const std::optional<Value>& last, std::int64_t step) {
  const auto size = static_cast<std::int64_t>(items.size());
  const std::int64_t lowest = step > 0 ? 0 : -1;
  const std::int64_t highest = step > 0 ? size : size - 1;
  const auto place = [&](const std::optional<Value>& given, std::int64_t missing) {
    if (!given || given->is<None>()) return missing;
    const std::int64_t at = integer_in("[:]", *given);
    return std::clamp(at < 0 ? at + size : at, lowest, highest);
  };
  const std::int64_t begin = place(first, step > 0 ? lowest : highest);
  const std::int64_t end = place(last, step > 0 ? highest : lowest);
  const std::int64_t stride = std::clamp(step, -size - 1, size + 1);  // a longer one goes beyond the ends as well
  List kept;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end; at += stride)
    kept.push_back(items[static_cast<std::size_t>(at)]);
  return kept;
}

Value operated_on(const Value& of, const Expression& e, const Arguments& given) {
  if (e.operation == Operation::binary) return binary(e.text, of, given.values[0]);
  if (e.operation == Operation::filter) return filter(e.text, of, given);
  if (e.operation == Operation::test) return {test(e.text, of, given)};
  check_defined(of, e.text);
  return method(e.text, of, given);
}

}  // namespace

Value find(const Scope& scope, const std::string& name) {
  for (const Scope* one = &scope; one; one = one->around)
    if (const auto found = one->variables.find(name); found != one->variables.end()) return found->second;
  return {};
}

void set_field(Dict& fields, const std::string& name, const Value& value) {
  const auto found = std::ranges::find(fields, name, &Dict::value_type::first);
  if (found == fields.end()) {
    check<ArgumentError>(fields.size() < kMostFields, "a dict of more than ", kMostFields);
    fields.emplace_back(name, value);
  } else {
    found->second = value;
  }
}

void Evaluator::step(std::size_t line) {
  line_ = line;
  charge(0);
}

void Evaluator::charge(std::size_t made, std::size_t read) {
  constexpr std::size_t kMadeOfStep = 128, kReadOfStep = 4096;
  steps_ += 1 + made / kMadeOfStep + read / kReadOfStep;
  check<ArgumentError>(steps_ <= kMostSteps, "more than ", kMostSteps, " steps");
}

ScopedValue<int> Evaluator::deeper() {
  check<ArgumentError>(depth_ < kMostLevels, "more than ", kMostLevels, " parts within each other");
  return {depth_, depth_ + 1};
}

Value Evaluator::value_of(const Expression& e, const Scope& scope) {
  step(e.line);
  const auto level = deeper();
  switch (e.operation) {
    case Operation::constant:
      return e.constant;
    case Operation::name:
      return find(scope, e.text);
    case Operation::list:
    case Operation::tuple:
      return list_of(e, scope);
    case Operation::dict:
      return dict_of(e, scope);
    case Operation::attribute:
      return attribute(value_of(*e.parts[0], scope), e.text);
    case Operation::item:
      return item_of(e, scope);
    case Operation::slice:
      return slice(e, scope);
    case Operation::negate:
      return {!is_true(value_of(*e.parts[0], scope))};
    case Operation::unary:
      return binary(e.text, Value::integer(0), value_of(*e.parts[0], scope));
    case Operation::both:
    case Operation::either:
      return either(e, scope);
    case Operation::choice:
      return choice(e, scope);
    case Operation::binary:
    case Operation::filter:
    case Operation::test:
    case Operation::method:
      return operated(e, scope);
    case Operation::call:
      return called(e, scope);
  }
  return {};
}

Value Evaluator::item_of(const Expression& e, const Scope& scope) {
  const Value of = value_of(*e.parts[0], scope);
  if (of.is_text()) charge(bytes_of_characters(of));
  return item(of, value_of(*e.parts[1], scope));
}

// The first operand decides, or else the second one.
Value Evaluator::either(const Expression& e, const Scope& scope) {
  const Value first = value_of(*e.parts[0], scope);
  const bool decides = is_true(first) == (e.operation == Operation::either);
  return decides ? first : value_of(*e.parts[1], scope);
}

Value Evaluator::choice(const Expression& e, const Scope& scope) {
  if (is_true(value_of(*e.parts[1], scope))) return value_of(*e.parts[0], scope);
  return e.parts[2] ? value_of(*e.parts[2], scope) : Value{};
}

Value Evaluator::list_of(const Expression& e, const Scope& scope) {
  List items;
  for (const ExpressionPtr& part : e.parts) items.push_back(value_of(*part, scope));
  return Value::list(std::move(items), e.operation == Operation::tuple ? Order::tuple : Order::list);
}

Value Evaluator::dict_of(const Expression& e, const Scope& scope) {
  Dict fields;
  for (std::size_t i = 0; i < e.parts.size(); i += 2) {
    const Value key = value_of(*e.parts[i], scope);
    check<ArgumentError>(key.is_text(), "a dict's key of type ", type_name(key), " is not supported");
    set_field(fields, key.as_text(), value_of(*e.parts[i + 1], scope));
  }
  return Value::dict(std::move(fields));
}

Value Evaluator::slice(const Expression& e, const Scope& scope) {
  const Value of = value_of(*e.parts[0], scope);
  const auto part = [&](std::size_t i) {
    return e.parts[i] ? std::optional(value_of(*e.parts[i], scope)) : std::nullopt;
  };
  const std::optional<Value> first = part(1), last = part(2), given = part(3);
  const std::int64_t step = given && given->is<None>() ? 1 : integer_or("[:]", given, 1);
  check<ArgumentError>(has_places(of), "a slice of a value of type ", type_name(of));
  check<ArgumentError>(step != 0, "a slice with a step of 0");
  charge(of.is_text() ? bytes_of_characters(of) : own_bytes(of));
  const List kept = sliced(items_of("[:]", of), first, last, step);
  if (of.is_list()) return Value::list(kept, of.order());
  std::string text;
  for (const Value& one : kept) text += one.as_text();
  return Value::text(std::move(text));
}

Arguments Evaluator::arguments(const Expression& e, const Scope& scope) {
  Arguments made;
  for (std::size_t i = 1; i < e.parts.size(); ++i) made.values.push_back(value_of(*e.parts[i], scope));
  for (const auto& [name, value] : e.named) made.named.emplace_back(name, value_of(*value, scope));
  return made;
}

// A value is searched for each of its operation's arguments.
Value Evaluator::operated(const Expression& e, const Scope& scope) {
  const Value of = value_of(*e.parts[0], scope);
  const Arguments given = arguments(e, scope);
  std::size_t read = 1;
  for (const Value& one : given.values) read += one.bytes();
  for (const auto& [name, one] : given.named) read += one.bytes();
  const bool has_characters = e.operation == Operation::filter && of.is_text() && is_filter_of_items(e.text);
  if (has_characters) charge(bytes_of_characters(of));
  const bool is_searched = e.operation != Operation::binary || e.text == "in" || e.text == "not in";
  charge(0, is_searched ? of.bytes() * read : of.bytes() + read);
  Value made = operated_on(of, e, given);
  charge(own_bytes(made));
  return made;
}

Value Evaluator::called(const Expression& e, const Scope& scope) {
  const Expression& named = *e.parts[0];
  const bool has_name = named.operation == Operation::name;
  const Value of = value_of(named, scope);
  if (has_name && named.text == "namespace" && of.is_undefined()) return make_namespace(arguments(e, scope));
  check<ArgumentError>(of.is_function(), "'", has_name ? named.text : "this", "' is no function here");
  Value made = (*std::get<std::shared_ptr<const Function>>(of.held))(arguments(e, scope));
  charge(own_bytes(made));
  return made;
}

Value Evaluator::make_namespace(const Arguments& given) {
  check<ArgumentError>(given.values.empty(), "'namespace' of a value is not supported");
  namespaces_.emplace_back();
  for (const auto& [name, value] : given.named) set_field(namespaces_.back().fields, name, value);
  return {&namespaces_.back()};
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
