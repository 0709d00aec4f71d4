// Truth and equality as Python has them; sizes are summed when a value is made.
#include "value.h"

#include "../../../autograd/core/check.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

constexpr std::size_t kBytesOfValue = 16;

template <class Made>
void measure(Made& made, const Value& item) {
  made.bytes += item.bytes();
  made.depth = std::max(made.depth, item.depth() + 1);
  check_bytes(made.bytes);
  check<ArgumentError>(made.depth <= kMostDepth, "more than ", kMostDepth, " lists or dicts within each other");
}

}  // namespace

void check_bytes(std::size_t bytes) {
  check<ArgumentError>(bytes <= kMostBytes, "a value of more than ", kMostBytes, " bytes");
}

Value Value::text(std::string text) {
  check_bytes(text.size());
  return {std::make_shared<const std::string>(std::move(text))};
}

Value Value::list(List items, Order order) {
  Sequence made{.items = std::move(items), .order = order};
  for (const Value& item : made.items) measure(made, item);
  return {std::make_shared<const Sequence>(std::move(made))};
}

Value Value::dict(Dict items) {
  check<ArgumentError>(items.size() <= kMostFields, "a dict of more than ", kMostFields);
  Mapping made{.items = std::move(items)};
  for (const auto& [key, item] : made.items) {
    made.bytes += key.size();
    measure(made, item);
  }
  return {std::make_shared<const Mapping>(std::move(made))};
}

const List& Value::as_list() const { return std::get<std::shared_ptr<const Sequence>>(held)->items; }

const List& Value::take() const {
  static const List kNothing;
  const Sequence& list = *std::get<std::shared_ptr<const Sequence>>(held);
  if (list.order != Order::generator) return list.items;
  check<ArgumentError>(list.taken != Taken::some, "a generator of which some was used is not supported");
  const bool is_new = list.taken == Taken::none;
  list.taken = Taken::all;
  return is_new ? list.items : kNothing;
}

void Value::set_taken(Taken taken) const {
  if (is_list()) std::get<std::shared_ptr<const Sequence>>(held)->taken = taken;
}

Order Value::order() const { return std::get<std::shared_ptr<const Sequence>>(held)->order; }

const Dict& Value::as_dict() const {
  return is_namespace() ? std::get<Namespace*>(held)->fields : std::get<std::shared_ptr<const Mapping>>(held)->items;
}

double Value::as_number() const {
  if (is<double>()) return std::get<double>(held);
  return static_cast<double>(as_integer());
}

std::int64_t Value::as_integer() const {
  constexpr double kMost = 9e18;
  if (is<bool>()) return std::get<bool>(held) ? 1 : 0;
  if (is<double>()) return static_cast<std::int64_t>(std::clamp(std::get<double>(held), -kMost, kMost));
  return std::get<std::int64_t>(held);
}

const Value* Value::field(std::string_view key) const {
  for (const auto& [name, value] : as_dict())
    if (name == key) return &value;
  return nullptr;
}

std::size_t Value::bytes() const {
  if (is_text()) return kBytesOfValue + as_text().size();
  if (is_list()) return kBytesOfValue + std::get<std::shared_ptr<const Sequence>>(held)->bytes;
  if (is_dict()) return kBytesOfValue + std::get<std::shared_ptr<const Mapping>>(held)->bytes;
  return kBytesOfValue;
}

int Value::depth() const {
  if (is_list()) return std::get<std::shared_ptr<const Sequence>>(held)->depth;
  return is_dict() ? std::get<std::shared_ptr<const Mapping>>(held)->depth : 0;
}

bool is_true(const Value& value) {
  if (value.is_number()) return value.as_number() != 0;
  if (value.is_text()) return !value.as_text().empty();
  if (value.is_list()) return value.order() == Order::generator || !value.as_list().empty();
  if (value.is_dict()) return !value.as_dict().empty();
  return value.is_namespace() || value.is_function();
}

bool are_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.as_number() == b.as_number();
  if (a.held.index() != b.held.index()) return false;
  if (a.is_text()) return a.as_text() == b.as_text();
  if (a.is_list()) return a.order() == b.order() && std::ranges::equal(a.as_list(), b.as_list(), are_equal);
  if (a.is_namespace() || a.is_function()) return a.held == b.held;
  if (!a.is_dict()) return true;
  if (a.as_dict().size() != b.as_dict().size()) return false;
  return std::ranges::all_of(a.as_dict(), [&](const auto& item) {
    const Value* const other = b.field(item.first);
    return other && are_equal(item.second, *other);
  });
}

bool contains(const Value& all, const Value& item) {
  if (all.is_undefined()) return false;
  if (all.is_list()) {
    const bool has = std::ranges::any_of(all.take(), [&](const Value& one) { return are_equal(one, item); });
    if (has) all.set_taken(Taken::some);
    return has;
  }
  if (all.is_dict()) return item.is_text() && all.field(item.as_text());
  check<ArgumentError>(all.is_text() && item.is_text(), "'in' of ", type_name(item), " and ", type_name(all));
  return all.as_text().find(item.as_text()) != std::string::npos;
}

bool has_places(const Value& value) { return value.is_text() || (value.is_list() && value.order() < Order::view); }

const char* type_name(const Value& value) {
  static constexpr const char* kNames[] = {"undefined", "None", "bool", "int",       "float",
                                           "str",       "list", "dict", "namespace", "function"};
  static constexpr const char* kOrders[] = {"list", "tuple", "range", "view", "generator"};
  return value.is_list() ? kOrders[static_cast<std::size_t>(value.order())] : kNames[value.held.index()];
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
