// Statements: walks the tree. Loops, macros and blocks see the variables around them, but set their own.
#include "renderer.h"

#include "arguments.h"
#include "calls.h"
#include "evaluator.h"
#include "written.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/scoped_value.h"

#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

enum class Flow { on, leave, proceed };

class Renderer {
 public:
  Renderer(const Dict& variables, std::string_view name) : name_(name) {
    for (const auto& [key, value] : global_functions()) globals_.variables[key] = value;
    for (const auto& [key, value] : variables) globals_.variables[key] = value;
  }

  Rendered render(const Block& statements) {
    try {
      run(statements);
    } catch (const ArgumentError& e) {
      fail<FormatError>(name_, ":", values_.line(), ": ", e.what());
    }
    return {std::move(out_), std::move(marked_)};
  }

 private:
  Flow run(const Block& statements) {
    const auto deeper = values_.deeper();
    for (const Statement& one : statements) {
      const Flow flow = run(one);
      if (flow != Flow::on) return flow;
    }
    return Flow::on;
  }

  // With variables of its own.
  Flow run_inner(const Block& statements, Scope scope = {}) {
    scope.around = scope_;
    const ScopedValue<Scope*> inner(scope_, &scope);
    return run(statements);
  }

  Flow run(const Statement& one) {
    values_.step(one.line);
    switch (one.kind) {
      case Kind::text:
        write(one.text);
        return Flow::on;
      case Kind::output:
        write(text_of(value_of(one.expression)));
        return Flow::on;
      case Kind::set:
        assign(one, value_of(one.expression));
        return Flow::on;
      case Kind::set_block:
        assign(one, Value::text(captured(one.body)));
        return Flow::on;
      case Kind::condition:
        return run(is_true(value_of(one.expression)) ? one.body : one.otherwise);
      case Kind::loop:
        return run_loop(one);
      case Kind::macro:
        scope_->variables[one.text] = macro(one);
        return Flow::on;
      case Kind::generation:
        run_generation(one);
        return Flow::on;
      case Kind::leave:
        return Flow::leave;
      case Kind::proceed:
        return Flow::proceed;
    }
    return Flow::on;
  }

  Value value_of(const ExpressionPtr& expression) { return values_.value_of(*expression, *scope_); }

  void write(const std::string& text) {
    check_bytes(out_.size() + text.size());
    values_.charge(text.size());
    out_ += text;
  }

  // What statements write, without writing it.
  std::string captured(const Block& statements, Scope scope = {}) {
    const ScopedValue<int> inside(captures_, captures_ + 1);
    ScopedValue<std::string> before(out_, {});
    run_inner(statements, std::move(scope));
    return std::move(out_);
  }

  void run_generation(const Statement& one) {
    const std::size_t begin = out_.size();
    run_inner(one.body);
    if (captures_ == 0) marked_.emplace_back(begin, out_.size());
  }

  void assign(const Statement& one, const Value& value) {
    if (one.text.empty()) {
      bind(one.names, value);
      return;
    }
    const Value of = find(*scope_, one.names[0]);
    check<ArgumentError>(of.is_namespace(), "'", one.names[0], "' is no namespace");
    set_field(std::get<Namespace*>(of.held)->fields, one.text, value);
  }

  void bind(const std::vector<std::string>& names, const Value& value) {
    if (names.size() == 1) {
      scope_->variables[names[0]] = value;
      return;
    }
    const List* const values = value.is_list() ? &value.take() : nullptr;
    const bool fits = values && values->size() == names.size();
    check<ArgumentError>(fits, "a value of type ", type_name(value), " is not ", names.size(), " values");
    for (std::size_t i = 0; i < names.size(); ++i) scope_->variables[names[i]] = (*values)[i];
  }

  // Its `else` may end a turn of the loop around it.
  Flow run_loop(const Statement& one) {
    const Value over = value_of(one.expression);
    const List items = kept_items(one, over);
    over.set_taken(Taken::some);
    bool is_left = false;
    bool has_finished = false;  // Jinja's `else` is for loops of which no turn came to its end
    for (std::size_t i = 0; !is_left && i < items.size(); ++i) {
      Scope own{.around = scope_};
      const ScopedValue<Scope*> inner(scope_, &own);
      values_.step(one.line);
      bind(one.names, items[i]);
      own.variables["loop"] = state_of(items, i);
      const Flow flow = run(one.body);
      is_left = flow == Flow::leave;
      has_finished = has_finished || flow == Flow::on;
    }
    if (!is_left) over.set_taken(Taken::all);
    return has_finished ? Flow::on : run_inner(one.otherwise);
  }

  List kept_items(const Statement& one, const Value& over) {
    List all = items_of("for", over);
    values_.charge(all.size() * sizeof(Value));
    if (!one.filter) return all;
    List kept;
    Scope own{.around = scope_};
    const ScopedValue<Scope*> inner(scope_, &own);
    for (const Value& item : all) {
      bind(one.names, item);
      if (is_true(value_of(one.filter))) kept.push_back(item);
    }
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

  // A function that returns what the macro writes. The tree outlives it; macros are the template's own, not a block's.
  Value macro(const Statement& one) {
    return Value::function([this, &one](const Arguments& arguments) {
      const Given given = bound(one.text, arguments, one.names, 0);
      Scope own{.around = &own_};
      const ScopedValue<Scope*> inner(scope_, &own);
      for (std::size_t i = 0; i < one.names.size(); ++i) {
        const bool has_default = !given[i] && one.defaults[i];
        own.variables[one.names[i]] = has_default ? value_of(one.defaults[i]) : given[i].value_or(Value{});
      }
      return Value::text(captured(one.body));
    });
  }

  std::string name_, out_;
  std::vector<std::pair<std::size_t, std::size_t>> marked_;
  Evaluator values_;
  Scope globals_, own_{.around = &globals_};
  Scope* scope_ = &own_;
  int captures_ = 0;
};

}  // namespace

Rendered render(const Block& statements, const Dict& variables, std::string_view name) {
  return Renderer(variables, name).render(statements);
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
