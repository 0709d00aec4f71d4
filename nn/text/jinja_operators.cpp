// Operators and global functions.
#include "jinja_functions.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

constexpr std::int64_t kMostInteger = std::int64_t{1} << 53;

bool are_whole(const Value& left, const Value& right) { return !left.is<double>() && !right.is<double>(); }

Value whole(double result) {
  check<ArgumentError>(std::abs(result) <= static_cast<double>(kMostInteger), "a number is beyond 2^53");
  return Value::integer(static_cast<std::int64_t>(result));
}

// Of two numbers; division rounds down, as Python's does.
Value arithmetic(const std::string& mark, const Value& left, const Value& right) {
  const double a = left.as_number();
  const double b = right.as_number();
  const bool divides = mark == "/" || mark == "//" || mark == "%";
  check<ArgumentError>(!divides || b != 0, "division by zero");
  double result = 0;
  if (mark == "+") result = a + b;
  if (mark == "-") result = a - b;
  if (mark == "*") result = a * b;
  if (mark == "/") return {a / b};
  if (mark == "//") result = std::floor(a / b);
  if (mark == "%") result = a - b * std::floor(a / b);
  return are_whole(left, right) ? whole(result) : Value{result};
}

Value joined(const Value& left, const Value& right) {
  if (left.is_text()) {
    const std::size_t size = left.as_text().size() + right.as_text().size();
    check<ArgumentError>(size <= kMostBytes, "a text of ", size, " bytes, more than ", kMostBytes);
    return Value::text(left.as_text() + right.as_text());
  }
  List all = left.as_list();
  all.insert(all.end(), right.as_list().begin(), right.as_list().end());
  check<ArgumentError>(all.size() <= kMostItems, "a list of more than ", kMostItems);
  return Value::list(std::move(all));
}

Value repeated(const std::string& text, std::int64_t times) {
  std::string out;
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, times));
  check<ArgumentError>(text.empty() || count <= kMostBytes / text.size(), "a text of more than ", kMostBytes, " bytes");
  for (std::size_t i = 0; i < count && !text.empty(); ++i) out += text;
  return Value::text(std::move(out));
}

[[noreturn]] void refuse(const std::string& mark, const Value& left, const Value& right) {
  fail<ArgumentError>("'", mark, "' of ", type_name(left), " and ", type_name(right));
}

// a < b
bool is_less(const std::string& mark, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.as_number() < b.as_number();
  if (!a.is_text() || !b.is_text()) refuse(mark, a, b);
  return a.as_text() < b.as_text();
}

std::optional<bool> comparison(const std::string& mark, const Value& left, const Value& right) {
  if (mark == "==") return are_equal(left, right);
  if (mark == "!=") return !are_equal(left, right);
  if (mark == "in") return contains(right, left);
  if (mark == "not in") return !contains(right, left);
  if (mark == "<") return is_less(mark, left, right);
  if (mark == ">") return is_less(mark, right, left);
  if (mark == "<=") return !is_less(mark, right, left);
  if (mark == ">=") return !is_less(mark, left, right);
  return {};
}

// ---- functions -----------------------------------------------------------------------------------

std::int64_t integer_of(const Value& value) {
  check<ArgumentError>(value.is_number(), "range of a value of type ", type_name(value));
  return value.as_integer();
}

Value range(const Arguments& arguments) {
  const std::size_t count = arguments.values.size();
  check<ArgumentError>(count >= 1 && count <= 3, "range has one to three numbers");
  const std::int64_t first = count > 1 ? integer_of(arguments.values[0]) : 0;
  const std::int64_t last = integer_of(arguments.values[count > 1 ? 1 : 0]);
  const std::int64_t step = count > 2 ? integer_of(arguments.values[2]) : 1;
  check<ArgumentError>(step != 0, "range: a step of 0");
  List all;
  for (std::int64_t i = first; step > 0 ? i < last : i > last; i += step) {
    all.push_back(Value::integer(i));
    check<ArgumentError>(all.size() <= kMostItems, "range: more than ", kMostItems, " numbers");
  }
  return Value::list(std::move(all));
}

Value dict(const Arguments& arguments) {
  Dict fields;
  for (const auto& [name, value] : arguments.named) fields.emplace_back(name, value);
  return Value::dict(std::move(fields));
}

Value make_namespace(const Arguments& arguments) {
  Value made = dict(arguments);
  made.is_namespace = true;
  return made;
}

Value raise_exception(const Arguments& arguments) {
  const std::string said = arguments.values.empty() ? "" : text_of(arguments.values[0]);
  fail<ArgumentError>("the template refuses this: ", printable(said, 200));
}

Value strftime_now(const Arguments& arguments) {
  const std::time_t now = std::time(nullptr);
  const std::string format = arguments.values.empty() ? "%c" : text_of(arguments.values[0]);
  std::array<char, 256> text;
  std::tm local = {};
  ::localtime_r(&now, &local);
  const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &local);
  return Value::text(std::string(text.data(), size));
}

}  // namespace

Value binary(const std::string& mark, const Value& left, const Value& right) {
  if (const auto compared = comparison(mark, left, right)) return {*compared};
  if (mark == "~") return joined(Value::text(text_of(left)), Value::text(text_of(right)));
  if (left.is_number() && right.is_number()) return arithmetic(mark, left, right);
  const bool are_texts = left.is_text() && right.is_text();
  const bool are_lists = left.is_list() && right.is_list();
  if (mark == "+" && (are_texts || are_lists)) return joined(left, right);
  if (mark == "*" && left.is_text() && right.is<std::int64_t>()) return repeated(left.as_text(), right.as_integer());
  refuse(mark, left, right);
}

Dict global_functions() {
  return {{"range", Value::function(range)},
          {"dict", Value::function(dict)},
          {"namespace", Value::function(make_namespace)},
          {"raise_exception", Value::function(raise_exception)},
          {"strftime_now", Value::function(strftime_now)}};
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
