// Tests: what stands behind `is`.
#include "arguments.h"
#include "calls.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"

#include <functional>
#include <map>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

struct Test {
  std::size_t operands;
  bool (*holds)(const Value&, const List&);
};

bool has_items(const Value& value) {
  return value.is_list() || value.is_text() || value.is_dict() || value.is_undefined();
}

const std::map<std::string, Test, std::less<>>& tests() {
  static const std::map<std::string, Test, std::less<>> kTests{
      {"defined", {0, [](const Value& v, const List&) { return !v.is_undefined(); }}},
      {"undefined", {0, [](const Value& v, const List&) { return v.is_undefined(); }}},
      {"none", {0, [](const Value& v, const List&) { return v.is<None>(); }}},
      {"string", {0, [](const Value& v, const List&) { return v.is_text(); }}},
      {"mapping", {0, [](const Value& v, const List&) { return v.is_dict(); }}},
      {"iterable", {0, [](const Value& v, const List&) { return has_items(v); }}},
      {"sequence", {0, [](const Value& v, const List&) { return has_places(v) || (has_items(v) && !v.is_list()); }}},
      {"number", {0, [](const Value& v, const List&) { return v.is_number(); }}},
      {"integer", {0, [](const Value& v, const List&) { return v.is_integer(); }}},
      {"float", {0, [](const Value& v, const List&) { return v.is<double>(); }}},
      {"boolean", {0, [](const Value& v, const List&) { return v.is<bool>(); }}},
      {"true", {0, [](const Value& v, const List&) { return v.is<bool>() && is_true(v); }}},
      {"false", {0, [](const Value& v, const List&) { return v.is<bool>() && !is_true(v); }}},
      {"equalto", {1, [](const Value& v, const List& a) { return are_equal(v, a[0]); }}},
      {"eq", {1, [](const Value& v, const List& a) { return are_equal(v, a[0]); }}},
      {"ne", {1, [](const Value& v, const List& a) { return !are_equal(v, a[0]); }}},
      {"in", {1, [](const Value& v, const List& a) { return contains(a[0], v); }}}};
  return kTests;
}

}  // namespace

bool is_test(std::string_view name) { return tests().contains(name); }

bool test(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto found = tests().find(name);
  check<ArgumentError>(found != tests().end(), "the test '", printable(name), "' is not supported");
  const std::size_t count = arguments.values.size();
  const std::size_t operands = found->second.operands;
  check<ArgumentError>(count == operands && arguments.named.empty(), "the test '", name, "' has ", operands,
                       " operands, here ", count);
  return found->second.holds(value, arguments.values);
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
