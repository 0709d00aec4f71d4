// One function for each level of precedence, the loosest first.
#include "expression.h"

#include "calls.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"
#include "../../../autograd/core/scoped_value.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <set>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

constexpr int kMostBrackets = 64;  // of brackets and signs, which are read recursively
constexpr int kMostTree = 200;     // of a tree, which long sums make deep too

const std::set<std::string_view> kReserved{"and", "else", "if", "in", "is", "not", "or"};
// What Jinja defines within macros and templates, and is not done here.
const std::set<std::string_view> kNotDone{"caller", "cycler", "joiner", "kwargs", "lipsum", "self", "super", "varargs"};
const std::set<std::string_view> kFieldsOfLoop{"index", "index0", "revindex", "revindex0", "first",
                                               "last",  "length", "previtem", "nextitem"};

}  // namespace

ExpressionParser::ExpressionParser(std::vector<Token> tokens, std::string where, std::size_t line)
    : tokens_(std::move(tokens)), where_(std::move(where)), line_(line) {}

// ---- tokens --------------------------------------------------------------------------------------

const Token& ExpressionParser::next() const {
  static const Token kEnd;
  return at_ < tokens_.size() ? tokens_[at_] : kEnd;
}

bool ExpressionParser::is_next(std::string_view token) const {
  const Token& found = next();
  return (found.type == Token::Type::name || found.type == Token::Type::mark) && found.text == token;
}

bool ExpressionParser::accept(std::string_view token) {
  if (!is_next(token)) return false;
  ++at_;
  return true;
}

void ExpressionParser::expect(std::string_view token) {
  if (!accept(token)) refuse("'" + std::string(token) + "' is due");
}

void ExpressionParser::expect_end() {
  if (at_ < tokens_.size()) refuse("is not supported");
}

void ExpressionParser::refuse(const std::string& why) const {
  const Token& found = next();
  const std::string at =
      found.type == Token::Type::end ? "the end" : "'" + std::string(printable(found.text, 40)) + "'";
  fail<FormatError>(where_, at, ": ", why);
}

std::string ExpressionParser::name() {
  if (next().type != Token::Type::name) refuse("a name is due");
  return tokens_[at_++].text;
}

std::vector<std::string> ExpressionParser::names() {
  std::vector<std::string> all{name()};
  while (accept(",")) all.push_back(name());
  return all;
}

ExpressionPtr ExpressionParser::make(Operation operation, std::string text) const {
  auto made = std::make_unique<Expression>();
  made->operation = operation;
  made->text = std::move(text);
  made->line = line_;
  return made;
}

void ExpressionParser::add(ExpressionPtr& to, ExpressionPtr part) const {
  if (part) to->depth = std::max(to->depth, part->depth + 1);
  if (to->depth > kMostTree) refuse("expressions are nested too deeply");
  to->parts.push_back(std::move(part));
}

ExpressionPtr ExpressionParser::with(ExpressionPtr made, ExpressionPtr first, ExpressionPtr second) const {
  add(made, std::move(first));
  if (second) add(made, std::move(second));
  return made;
}

// ---- levels --------------------------------------------------------------------------------------

ExpressionPtr ExpressionParser::expression() {
  ExpressionPtr value = expression_without_choice();
  if (!accept("if")) return value;
  ExpressionPtr made = with(make(Operation::choice), std::move(value), expression_without_choice());
  const ScopedValue<int> deeper(depth_, depth_ + 1);  // of a chain of them
  add(made, accept("else") ? expression() : nullptr);
  return made;
}

ExpressionPtr ExpressionParser::expression_without_choice() {
  const ScopedValue<int> deeper(depth_, depth_ + 1);
  if (depth_ > kMostBrackets) refuse("expressions are nested too deeply");
  return either();
}

ExpressionPtr ExpressionParser::either() {
  ExpressionPtr left = both();
  while (accept("or")) left = with(make(Operation::either), std::move(left), both());
  return left;
}

ExpressionPtr ExpressionParser::both() {
  ExpressionPtr left = negation();
  while (accept("and")) left = with(make(Operation::both), std::move(left), negation());
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  bool is_negated = false;
  bool has_not = false;
  while (accept("not")) {
    has_not = true;
    is_negated = !is_negated;
  }
  ExpressionPtr of = comparison();
  if (!has_not) return of;
  of = with(make(Operation::negate), std::move(of));
  return is_negated ? std::move(of) : with(make(Operation::negate), std::move(of));
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr left = sum();
  std::string mark;
  const auto is_comparison = [&] {
    mark = next().text;
    for (const char* one : {"==", "!=", "<", ">", "<=", ">=", "in"})
      if (accept(one)) return true;
    if (!is_next("not") || at_ + 1 >= tokens_.size() || tokens_[at_ + 1].text != "in") return false;
    at_ += 2;
    mark = "not in";
    return true;
  };
  if (!is_comparison()) return left;
  ExpressionPtr made = with(make(Operation::binary, mark), std::move(left), sum());
  if (is_comparison()) refuse("a chain of comparisons is not supported");
  return made;
}

ExpressionPtr ExpressionParser::binary_chain(ExpressionPtr (ExpressionParser::*operand)(),
                                             std::initializer_list<std::string_view> marks) {
  ExpressionPtr left = (this->*operand)();
  while (true) {
    const std::string mark = next().text;
    bool is_found = false;
    for (const std::string_view one : marks) is_found = is_found || accept(one);
    if (!is_found) return left;
    left = with(make(Operation::binary, mark), std::move(left), (this->*operand)());
  }
}

ExpressionPtr ExpressionParser::sum() { return binary_chain(&ExpressionParser::concatenation, {"+", "-"}); }
ExpressionPtr ExpressionParser::concatenation() { return binary_chain(&ExpressionParser::product, {"~"}); }
ExpressionPtr ExpressionParser::product() { return binary_chain(&ExpressionParser::power, {"*", "//", "/", "%"}); }

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr of = unary(true);
  if (is_next("**")) refuse("is not supported");
  return of;
}

ExpressionPtr ExpressionParser::unary(bool has_filters) {
  const ScopedValue<int> deeper(depth_, depth_ + 1);
  if (depth_ > kMostBrackets) refuse("expressions are nested too deeply");
  ExpressionPtr of;
  if (is_next("-") || is_next("+")) {
    const std::string sign = tokens_[at_++].text;
    of = with(make(Operation::unary, sign), unary(false));
  } else {
    of = postfix(primary());
  }
  return has_filters ? filters(std::move(of)) : std::move(of);
}

ExpressionPtr ExpressionParser::primary() {
  const Token token = next();
  if (token.type == Token::Type::name) return named();
  if (accept("(")) return sequence(")", Operation::tuple);
  if (accept("[")) return sequence("]", Operation::list);
  if (accept("{")) return dict();
  ExpressionPtr made = make(Operation::constant);
  if (token.type == Token::Type::text) {
    std::string text;
    while (next().type == Token::Type::text) text += tokens_[at_++].text;  // as Python joins them
    made->constant = Value::text(text);
  } else if (token.type == Token::Type::integer) {
    made->constant = Value::integer(integer());
  } else if (token.type == Token::Type::decimal) {
    double number = 0;
    const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
    if (error != std::errc()) refuse("is too large");
    made->constant = {number};
    ++at_;
  } else {
    refuse("a value is due");
  }
  return made;
}

// A variable, or true, false or none.
ExpressionPtr ExpressionParser::named() {
  const std::string& word = next().text;
  if (kReserved.contains(word)) refuse("a value is due");
  if (kNotDone.contains(word)) refuse("is not supported");
  ++at_;
  if (word == "loop" && !is_next(".") && !is_next("is")) refuse("'loop' as a value is not supported");
  ExpressionPtr made = make(Operation::constant);
  if (word == "true" || word == "True") {
    made->constant = {true};
  } else if (word == "false" || word == "False") {
    made->constant = {false};
  } else if (word == "none" || word == "None") {
    made->constant = {None()};
  } else {
    made = make(Operation::name, word);
  }
  return made;
}

std::int64_t ExpressionParser::integer() {
  std::int64_t number = 0;
  const std::string& digits = next().text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc()) refuse("is too large");
  ++at_;
  return number;
}

// A list; or what is in parentheses: one expression, or a tuple.
ExpressionPtr ExpressionParser::sequence(std::string_view close, Operation kind) {
  ExpressionPtr made = make(kind);
  bool has_comma = false;
  while (!accept(close)) {
    if (!made->parts.empty()) {
      expect(",");
      has_comma = true;
      if (accept(close)) break;
    }
    add(made, expression());
  }
  const bool is_one = kind == Operation::tuple && made->parts.size() == 1 && !has_comma;
  return is_one ? std::move(made->parts[0]) : std::move(made);
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr made = make(Operation::dict);
  while (!accept("}")) {
    if (!made->parts.empty()) {
      expect(",");
      if (accept("}")) break;
    }
    add(made, expression());
    expect(":");
    add(made, expression());
  }
  return made;
}

// ---- what follows a value ------------------------------------------------------------------------

ExpressionPtr ExpressionParser::postfix(ExpressionPtr of) {
  while (true) {
    if (accept(".")) {
      of = member(std::move(of));
    } else if (accept("[")) {
      of = subscript(std::move(of));
    } else if (accept("(")) {
      of = with(make(Operation::call), std::move(of));
      arguments(of);
    } else {
      return of;
    }
  }
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr of) {
  while (true) {
    if (accept("|")) {
      if (!is_filter(next().text)) refuse("this filter is not supported");
      of = with(make(Operation::filter, name()), std::move(of));
      if (accept("(")) arguments(of);
    } else if (accept("is")) {
      of = test(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPtr ExpressionParser::member(ExpressionPtr of) {
  if (next().type == Token::Type::integer) {
    ExpressionPtr index = make(Operation::constant);
    index->constant = Value::integer(integer());
    return with(make(Operation::item), std::move(of), std::move(index));
  }
  const bool is_of_loop = of->operation == Operation::name && of->text == "loop";
  if (is_of_loop && !kFieldsOfLoop.contains(next().text)) refuse("'loop' has no such field here");
  const std::string field = name();
  if (!accept("(")) return with(make(Operation::attribute, field), std::move(of));
  ExpressionPtr made = with(make(Operation::method, field), std::move(of));
  arguments(made);
  return made;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr of) {
  std::vector<ExpressionPtr> parts(3);
  std::size_t colons = 0;
  while (!accept("]")) {
    if (accept(":")) {
      if (++colons > 2) refuse("a slice has at most two colons");
    } else if (parts[colons]) {
      refuse("']' is due");
    } else {
      parts[colons] = expression();
    }
  }
  if (colons == 0 && !parts[0]) refuse("an index is due");
  if (colons == 0) return with(make(Operation::item), std::move(of), std::move(parts[0]));
  ExpressionPtr made = with(make(Operation::slice), std::move(of));
  for (ExpressionPtr& part : parts) add(made, std::move(part));
  return made;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr of) {
  const bool is_negated = accept("not");
  if (!is_test(next().text)) refuse("this test is not supported");
  ExpressionPtr made = with(make(Operation::test, name()), std::move(of));
  const bool has_operand = next().type == Token::Type::text || next().type == Token::Type::integer ||
                           next().type == Token::Type::decimal || is_next("[");
  const bool has_name = next().type == Token::Type::name && !kReserved.contains(next().text);
  if (accept("(")) {
    arguments(made);
  } else if (has_operand || has_name) {
    add(made, postfix(primary()));
  }
  return is_negated ? with(make(Operation::negate), std::move(made)) : std::move(made);
}

// Up to the closing parenthesis.
void ExpressionParser::arguments(ExpressionPtr& call) {
  bool is_first = true;
  while (!accept(")")) {
    if (!is_first) {
      expect(",");
      if (accept(")")) break;
    }
    is_first = false;
    const bool has_name = next().type == Token::Type::name && at_ + 1 < tokens_.size() &&
                          tokens_[at_ + 1].text == "=" && tokens_[at_ + 1].type == Token::Type::mark;
    if (has_name) {
      const std::string key = name();
      expect("=");
      ExpressionPtr value = expression();
      call->depth = std::max(call->depth, value->depth + 1);
      call->named.emplace_back(key, std::move(value));
    } else {
      if (!call->named.empty()) refuse("an argument by position follows one by name");
      add(call, expression());
    }
  }
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
