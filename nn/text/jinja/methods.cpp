// Methods of texts and dicts.
#include "arguments.h"
#include "calls.h"
#include "texts.h"

#include "../../../autograd/core/check.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

struct Method {
  std::vector<std::string> parameters;
  std::size_t required;
  Value (*run)(const Value&, const Given&);
};
using Methods = std::map<std::string, Method, std::less<>>;

Value stripped(const Value& of, const Given& given, Ends ends) {
  const bool has_characters = given[0] && !given[0]->is<None>();
  if (!has_characters) return Value::text(std::string(without_space(of.as_text(), ends)));
  return Value::text(std::string(without_characters(of.as_text(), text_in("strip", *given[0]), ends)));
}

Value split_text(const Value& of, const Given& given) {
  const std::int64_t most = integer_or("split", given[1], -1);
  if (!given[0] || given[0]->is<None>()) {
    check<ArgumentError>(most < 0, "'split' at white space has no 'maxsplit' here");
    return Value::list(split_at_space(of.as_text()));
  }
  const std::string& separator = text_in("split", *given[0]);
  check<ArgumentError>(!separator.empty(), "'split' at an empty text");
  return Value::list(split(of.as_text(), separator, most));
}

Value replaced_in(const Value& of, const Given& given) {
  const std::string& from = text_in("replace", *given[0]);
  return Value::text(replaced(of.as_text(), from, text_in("replace", *given[1]), integer_or("replace", given[2], -1)));
}

const Methods& methods_of_text() {
  static const Methods kMethods{
      {"strip", {{"chars"}, 0, [](const Value& v, const Given& a) { return stripped(v, a, Ends::both); }}},
      {"lstrip", {{"chars"}, 0, [](const Value& v, const Given& a) { return stripped(v, a, Ends::left); }}},
      {"rstrip", {{"chars"}, 0, [](const Value& v, const Given& a) { return stripped(v, a, Ends::right); }}},
      {"upper", {{}, 0, [](const Value& v, const Given&) { return Value::text(upper(v.as_text())); }}},
      {"lower", {{}, 0, [](const Value& v, const Given&) { return Value::text(lower(v.as_text())); }}},
      {"capitalize", {{}, 0, [](const Value& v, const Given&) { return Value::text(capitalized(v.as_text())); }}},
      {"split", {{"sep", "maxsplit"}, 0, split_text}},
      {"replace", {{"old", "new", "count"}, 2, replaced_in}},
      {"startswith",
       {{"prefix"},
        1,
        [](const Value& v, const Given& a) { return Value{v.as_text().starts_with(text_in("startswith", *a[0]))}; }}},
      {"endswith", {{"suffix"}, 1, [](const Value& v, const Given& a) {
                      return Value{v.as_text().ends_with(text_in("endswith", *a[0]))};
                    }}}};
  return kMethods;
}

Value values_of(const Value& of, const Given&) {
  List values;
  for (const auto& [key, item] : of.as_dict()) values.push_back(item);
  return Value::list(std::move(values), Order::view);
}

Value got(const Value& of, const Given& given) {
  const Value* const found = of.field(text_in("get", *given[0]));
  if (found) return *found;
  return given[1].value_or(Value{None()});
}

const Methods& methods_of_dict() {
  static const Methods kMethods{
      {"items",
       {{},
        0,
        [](const Value& v, const Given&) { return Value::list(filter("items", v, {}).as_list(), Order::view); }}},
      {"keys", {{}, 0, [](const Value& v, const Given&) { return Value::list(items_of("keys", v), Order::view); }}},
      {"values", {{}, 0, values_of}},
      {"get", {{"key", "default"}, 1, got}}};
  return kMethods;
}

// Python's methods, but not those that change a list, which Jinja's sandbox hides.
using Names = std::set<std::string_view>;

const Names& names_of(const Value& of) {
  static const Names kNone;
  static const Names kOfText{"capitalize",   "casefold",    "center",    "count",      "encode",     "endswith",
                             "expandtabs",   "find",        "format",    "format_map", "index",      "isalnum",
                             "isalpha",      "isascii",     "isdecimal", "isdigit",    "islower",    "isidentifier",
                             "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",    "join",
                             "ljust",        "lower",       "lstrip",    "maketrans",  "partition",  "removeprefix",
                             "removesuffix", "replace",     "rfind",     "rindex",     "rjust",      "rpartition",
                             "rsplit",       "rstrip",      "split",     "splitlines", "startswith", "strip",
                             "swapcase",     "title",       "translate", "upper",      "zfill"};
  static const Names kOfDict{"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                             "pop",   "popitem", "setdefault", "update", "values"};
  static const Names kOfList{"copy", "count", "index"};
  if (of.is_text()) return kOfText;
  if (of.is_dict()) return kOfDict;
  return of.is_list() ? kOfList : kNone;
}

}  // namespace

void check_no_method(const std::string& name, const Value& of) {
  check<ArgumentError>(!names_of(of).contains(name), "the method '", name, "' of a value of type ", type_name(of),
                       " is only called here");
}

Value method(const std::string& name, const Value& of, const Arguments& arguments) {
  check<ArgumentError>((of.is_text() || of.is_dict()) && !of.is_markup, "the method '", name, "' of a value of type ",
                       of.is_markup ? "safe" : type_name(of), " is not supported");
  const Methods& all = of.is_text() ? methods_of_text() : methods_of_dict();
  const auto found = all.find(name);
  check<ArgumentError>(found != all.end(), "the method '", name, "' of a value of type ", type_name(of),
                       " is not supported");
  return found->second.run(of, bound(name, arguments, found->second.parameters, found->second.required));
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
