// Walks the tree; scopes are those of loops and macros, which see the variables around them but do not change them.
#include "jinja_renderer.h"

#include "jinja_functions.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/scoped_value.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

constexpr std::uint64_t kMostSteps = 10'000'000;
constexpr int kMostCalls = 32;

enum class Flow { on, leave, proceed };

using Scope = std::map<std::string, Value>;

class Renderer {
 public:
  Renderer(const Dict& variables, std::string_view name) : name_(name) {
    Scope& globals = scopes_.emplace_back();
    for (const auto& [key, value] : global_functions()) globals[key] = value;
    for (const auto& [key, value] : variables) globals[key] = value;
    scopes_.emplace_back();
  }

  std::string render(const Block& statements) {
    try {
      run(statements);
    } catch (const ArgumentError& e) {
      fail<FormatError>(name_, ":", line_, ": ", e.what());
    }
    return std::move(out_);
  }

 private:
  // ---- statements --------------------------------------------------------------------------------

  Flow run(const Block& statements) {
    for (const Statement& one : statements) {
      const Flow flow = run(one);
      if (flow != Flow::on) return flow;
    }
    return Flow::on;
  }

  Flow run(const Statement& one) {
    step(one.line);
    switch (one.kind) {
      case Kind::text:
        write(one.text);
        return Flow::on;
      case Kind::output:
        write(text_of(value_of(*one.expression)));
        return Flow::on;
      case Kind::set:
        assign(one, value_of(*one.expression));
        return Flow::on;
      case Kind::set_block:
        assign(one, Value::text(captured(one.body)));
        return Flow::on;
      case Kind::condition:
        return run(is_true(value_of(*one.expression)) ? one.body : one.otherwise);
      case Kind::loop:
        return run_loop(one);
      case Kind::macro:
        scopes_.back()[one.text] = macro(one);
        return Flow::on;
      case Kind::leave:
        return Flow::leave;
      case Kind::proceed:
        return Flow::proceed;
    }
    return Flow::on;
  }

  void step(std::size_t line) {
    line_ = line;
    check<ArgumentError>(++steps_ <= kMostSteps, "more than ", kMostSteps, " steps");
  }

  void write(const std::string& text) {
    check<ArgumentError>(out_.size() + text.size() <= kMostBytes, "more than ", kMostBytes, " bytes are written");
    out_ += text;
  }

  // What statements write, without writing it.
  std::string captured(const Block& statements) {
    std::string before = std::exchange(out_, {});
    run(statements);
    return std::exchange(out_, std::move(before));
  }

  void assign(const Statement& one, const Value& value) {
    if (!one.text.empty()) {
      const Value of = variable(one.names[0]);
      check<ArgumentError>(of.is_namespace, "'", one.names[0], "' is no namespace");
      set_field(of, one.text, value);
    } else if (one.names.size() == 1) {
      scopes_.back()[one.names[0]] = value;
    } else {
      unpack(one.names, value);
    }
  }

  static void set_field(const Value& of, const std::string& name, const Value& value) {
    for (auto& [key, field] : of.as_dict())
      if (key == name) {
        field = value;
        return;
      }
    of.as_dict().emplace_back(name, value);
  }

  void unpack(const std::vector<std::string>& names, const Value& value) {
    const bool fits = value.is_list() && value.as_list().size() == names.size();
    check<ArgumentError>(fits, "a value of type ", type_name(value), " is not ", names.size(), " values");
    for (std::size_t i = 0; i < names.size(); ++i) scopes_.back()[names[i]] = value.as_list()[i];
  }

  Flow run_loop(const Statement& one) {
    const List items = kept_items(one);
    if (items.empty()) return run(one.otherwise);
    scopes_.emplace_back();
    for (std::size_t i = 0; i < items.size(); ++i) {
      scopes_.back().clear();
      step(one.line);
      bind(one, items[i]);
      scopes_.back()["loop"] = state_of(items, i);
      if (run(one.body) == Flow::leave) break;
    }
    scopes_.pop_back();
    return Flow::on;
  }

  void bind(const Statement& one, const Value& item) {
    if (one.names.size() == 1) {
      scopes_.back()[one.names[0]] = item;
    } else {
      unpack(one.names, item);
    }
  }

  List kept_items(const Statement& one) {
    const List all = filter("list", value_of(*one.expression), {}).as_list();
    if (!one.filter) return all;
    List kept;
    scopes_.emplace_back();
    for (const Value& item : all) {
      bind(one, item);
      if (is_true(value_of(*one.filter))) kept.push_back(item);
    }
    scopes_.pop_back();
    return kept;
  }

  static Value state_of(const List& items, std::size_t i) {
    const auto index = static_cast<std::int64_t>(i);
    const auto size = static_cast<std::int64_t>(items.size());
    const Value before = i > 0 ? items[i - 1] : Value{};
    const Value after = i + 1 < items.size() ? items[i + 1] : Value{};
    return Value::dict({{"index", Value::integer(index + 1)},
                        {"index0", Value::integer(index)},
                        {"revindex", Value::integer(size - index)},
                        {"revindex0", Value::integer(size - index - 1)},
                        {"first", {index == 0}},
                        {"last", {index + 1 == size}},
                        {"length", Value::integer(size)},
                        {"previtem", before},
                        {"nextitem", after}});
  }

  // A function that returns what the macro writes. The tree outlives it.
  Value macro(const Statement& one) {
    return Value::function([this, &one](const Arguments& arguments) {
      check<ArgumentError>(calls_ < kMostCalls, "more than ", kMostCalls, " macros within each other");
      const ScopedValue<int> deeper(calls_, calls_ + 1);
      Scope parameters;
      for (std::size_t i = 0; i < one.names.size(); ++i) {
        const Value* const given = arguments.find(i, one.names[i].c_str());
        if (given) {
          parameters[one.names[i]] = *given;
        } else {
          parameters[one.names[i]] = one.defaults[i] ? value_of(*one.defaults[i]) : Value{};
        }
      }
      std::vector<Scope> around(scopes_.begin(), scopes_.begin() + 2);  // the globals, and the template's own
      around.push_back(std::move(parameters));
      std::swap(around, scopes_);
      std::string text = captured(one.body);
      std::swap(around, scopes_);
      return Value::text(std::move(text));
    });
  }

  // ---- expressions -------------------------------------------------------------------------------

  Value variable(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    return {};
  }

  Value value_of(const Expression& e) {
    step(e.line);
    switch (e.operation) {
      case Operation::constant:
        return e.constant;
      case Operation::name:
        return variable(e.text);
      case Operation::list:
        return list_of(e);
      case Operation::dict:
        return dict_of(e);
      case Operation::attribute:
        return attribute(value_of(*e.parts[0]), e.text);
      case Operation::item:
        return item(value_of(*e.parts[0]), value_of(*e.parts[1]));
      case Operation::slice:
        return slice(e);
      case Operation::call:
        return call(e);
      case Operation::method:
        return call_method(e);
      case Operation::filter:
        return filter(e.text, value_of(*e.parts[0]), arguments(e));
      case Operation::test:
        return {test(e.text, value_of(*e.parts[0]), arguments(e))};
      case Operation::negate:
        return {!is_true(value_of(*e.parts[0]))};
      case Operation::unary:
        return binary(e.text, Value::integer(0), value_of(*e.parts[0]));
      case Operation::binary:
        return binary(e.text, value_of(*e.parts[0]), value_of(*e.parts[1]));
      case Operation::both:
        return either(e, false);
      case Operation::either:
        return either(e, true);
      case Operation::choice:
        return choice(e);
    }
    return {};
  }

  // The first operand decides if its truth is `decisive`, the second one otherwise.
  Value either(const Expression& e, bool decisive) {
    const Value first = value_of(*e.parts[0]);
    return is_true(first) == decisive ? first : value_of(*e.parts[1]);
  }

  Value choice(const Expression& e) {
    if (is_true(value_of(*e.parts[1]))) return value_of(*e.parts[0]);
    return e.parts[2] ? value_of(*e.parts[2]) : Value{};
  }

  Value list_of(const Expression& e) {
    List items;
    for (const ExpressionPtr& part : e.parts) items.push_back(value_of(*part));
    return Value::list(std::move(items));
  }

  Value dict_of(const Expression& e) {
    const Value made = Value::dict({});
    for (std::size_t i = 0; i < e.parts.size(); i += 2)
      set_field(made, text_of(value_of(*e.parts[i])), value_of(*e.parts[i + 1]));
    return made;
  }

  static Value attribute(const Value& of, const std::string& name) {
    check<ArgumentError>(!of.is_undefined(), "'", name, "' of a value that is not defined");
    if (!of.is_dict()) return {};
    const Value* const found = of.field(name);
    return found ? *found : Value{};
  }

  static Value item(const Value& of, const Value& index) {
    if (index.is_text()) return attribute(of, index.as_text());
    check<ArgumentError>(index.is<std::int64_t>() && (of.is_list() || of.is_text()), "an item ", literal_of(index),
                         " of a value of type ", type_name(of));
    const List items = filter("list", of, {}).as_list();
    const auto size = static_cast<std::int64_t>(items.size());
    const std::int64_t at = index.as_integer() < 0 ? index.as_integer() + size : index.as_integer();
    if (at < 0 || at >= size) return {};
    return items[static_cast<std::size_t>(at)];
  }

  // Python's slices: an end that is missing or beyond is that of the list.
  Value slice(const Expression& e) {
    const Value of = value_of(*e.parts[0]);
    check<ArgumentError>(of.is_list() || of.is_text(), "a slice of a value of type ", type_name(of));
    const List items = filter("list", of, {}).as_list();
    const auto size = static_cast<std::int64_t>(items.size());
    const std::int64_t step = bound(e, 3, 1);
    check<ArgumentError>(step != 0, "a slice with a step of 0");
    const std::int64_t lowest = step > 0 ? 0 : -1;
    const std::int64_t highest = step > 0 ? size : size - 1;
    const auto within = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, lowest, highest); };
    const bool has_first = is_given(e, 1);
    const bool has_last = is_given(e, 2);
    const std::int64_t begin = step > 0 ? lowest : highest;
    const std::int64_t end = step > 0 ? highest : lowest;
    const std::int64_t first = has_first ? within(bound(e, 1, 0)) : begin;
    const std::int64_t last = has_last ? within(bound(e, 2, 0)) : end;
    List kept;
    for (std::int64_t at = first; step > 0 ? at < last : at > last; at += step)
      kept.push_back(items[static_cast<std::size_t>(at)]);
    return of.is_list() ? Value::list(std::move(kept)) : filter("join", Value::list(std::move(kept)), {});
  }
  bool is_given(const Expression& e, std::size_t part) { return e.parts[part] && !value_of(*e.parts[part]).is<None>(); }
  std::int64_t bound(const Expression& e, std::size_t part, std::int64_t fallback) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (!is_given(e, part)) return fallback;
    const Value value = value_of(*e.parts[part]);
    check<ArgumentError>(value.is<std::int64_t>(), "a slice to a value of type ", type_name(value));
    return std::clamp(value.as_integer(), -kMost, kMost);
  }

  // All parts but the first.
  Arguments arguments(const Expression& e) {
    Arguments made;
    for (std::size_t i = 1; i < e.parts.size(); ++i) made.values.push_back(value_of(*e.parts[i]));
    for (const auto& [name, value] : e.named) made.named[name] = value_of(*value);
    return made;
  }

  Value call(const Expression& e) {
    const Value of = value_of(*e.parts[0]);
    const bool is_function = of.is<std::shared_ptr<Function>>();
    const std::string shown = e.parts[0]->operation == Operation::name ? e.parts[0]->text : "this";
    check<ArgumentError>(is_function, "'", shown, "' is no function here");
    return (*std::get<std::shared_ptr<Function>>(of.held))(arguments(e));
  }

  Value call_method(const Expression& e) {
    const Value of = value_of(*e.parts[0]);
    const Arguments given = arguments(e);
    const Value* const field = of.is_dict() ? of.field(e.text) : nullptr;
    if (field && field->is<std::shared_ptr<Function>>())
      return (*std::get<std::shared_ptr<Function>>(field->held))(given);
    check<ArgumentError>(!of.is_undefined(), "'", e.text, "' of a value that is not defined");
    return method(e.text, of, given);
  }

  std::string name_, out_;
  std::vector<Scope> scopes_;
  std::uint64_t steps_ = 0;
  std::size_t line_ = 1;
  int calls_ = 0;
};

}  // namespace

std::string render(const Block& statements, const Dict& variables, std::string_view name) {
  return Renderer(variables, name).render(statements);
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
