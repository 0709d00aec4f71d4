// Operators and global functions.
#include "arguments.h"
#include "calls.h"
#include "written.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"
#include "../../io/system.h"

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

// Has the sign of b.
double modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
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
  if (mark == "//") result = std::floor((a - modulo(a, b)) / b + 0.5);
  if (mark == "%") result = modulo(a, b);
  return are_whole(left, right) ? whole(result) : Value{result};
}

Value joined(const Value& left, const Value& right) {
  check<ArgumentError>(!left.is_markup && !right.is_markup, "'+' of a text that is safe is not supported");
  if (left.is_text()) return Value::text(left.as_text() + right.as_text());
  List all = left.as_list();
  all.insert(all.end(), right.as_list().begin(), right.as_list().end());
  return Value::list(std::move(all), left.order());
}

Value repeated(const std::string& text, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, times));
  if (text.empty() || count == 0) return Value::text("");
  check_bytes(count <= kMostBytes / text.size() ? 0 : kMostBytes + 1);
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
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

Value range(const Arguments& arguments) {
  constexpr std::size_t kMostNumbers = std::size_t{1} << 20;
  const Given given = bound("range", arguments, {"start", "stop", "step"}, 1);
  for (const std::optional<Value>& one : given) {
    const std::int64_t number = integer_or("range", one, 0);
    check<ArgumentError>(number >= -kMostInteger && number <= kMostInteger, "'range' of a number beyond 2^53");
  }
  const std::int64_t first = given[1] ? given[0]->as_integer() : 0;
  const std::int64_t last = (given[1] ? given[1] : given[0])->as_integer();
  const std::int64_t step = integer_or("range", given[2], 1);
  check<ArgumentError>(step != 0, "'range' with a step of 0");
  List all;
  for (std::int64_t i = first; step > 0 ? i < last : i > last; i += step) {
    all.push_back(Value::integer(i));
    check<ArgumentError>(all.size() <= kMostNumbers, "'range' of more than ", kMostNumbers, " numbers");
  }
  return Value::list(std::move(all), Order::range);
}

Value dict(const Arguments& arguments) {
  check<ArgumentError>(arguments.values.empty(), "'dict' of a value is not supported");
  return Value::dict(arguments.named);
}

Value raise_exception(const Arguments& arguments) {
  const std::string said = text_of(*bound("raise_exception", arguments, {"message"}, 1)[0]);
  fail<ArgumentError>("the template refuses this: ", printable(said, 200));
}

Value strftime_now(const Arguments& arguments) {
  const Given given = bound("strftime_now", arguments, {"format"}, 1);
  std::array<char, 256> text;
  const std::tm local = local_time(std::time(nullptr));
  const std::size_t size = std::strftime(text.data(), text.size(), text_in("strftime_now", *given[0]).c_str(), &local);
  return Value::text(std::string(text.data(), size));
}

}  // namespace

Value binary(const std::string& mark, const Value& left, const Value& right) {
  if (const auto compared = comparison(mark, left, right)) return {*compared};
  if (mark == "~") return joined(Value::text(text_of(left)), Value::text(text_of(right)));
  if (left.is_number() && right.is_number()) return arithmetic(mark, left, right);
  const bool are_texts = left.is_text() && right.is_text();
  const bool are_lists =
      left.is_list() && right.is_list() && left.order() == right.order() && left.order() <= Order::tuple;
  if (mark == "+" && (are_texts || are_lists)) return joined(left, right);
  if (mark == "*" && left.is_text() && right.is<std::int64_t>()) return repeated(left.as_text(), right.as_integer());
  refuse(mark, left, right);
}

Dict global_functions() {
  return {{"range", Value::function(range)},
          {"dict", Value::function(dict)},
          {"raise_exception", Value::function(raise_exception)},
          {"strftime_now", Value::function(strftime_now)}};
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
