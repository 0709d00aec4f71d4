// The expressions in the tags of a Jinja template.
#pragma once

#include "lexer.h"
#include "syntax.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

// Reads the tokens of a tag from the first to the last. Throws FormatError, which begins with `where`.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, std::string where, std::size_t line);

  ExpressionPtr expression();
  ExpressionPtr expression_without_choice();  // a following `if` is not part of it
  std::string name();
  std::vector<std::string> names();     // one, or several with commas between
  bool accept(std::string_view token);  // passes this name or mark if it is next
  void expect(std::string_view token);
  void expect_end();

 private:
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool has_filters);
  ExpressionPtr primary();
  ExpressionPtr named();
  std::int64_t integer();
  ExpressionPtr sequence(std::string_view close, Operation kind);
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr of);
  ExpressionPtr filters(ExpressionPtr of);
  ExpressionPtr member(ExpressionPtr of);
  ExpressionPtr subscript(ExpressionPtr of);
  ExpressionPtr test(ExpressionPtr of);
  void arguments(ExpressionPtr& call);
  ExpressionPtr binary_chain(ExpressionPtr (ExpressionParser::*operand)(),
                             std::initializer_list<std::string_view> marks);

  ExpressionPtr make(Operation operation, std::string text = {}) const;
  void add(ExpressionPtr& to, ExpressionPtr part) const;
  ExpressionPtr with(ExpressionPtr made, ExpressionPtr first, ExpressionPtr second = nullptr) const;
  const Token& next() const;
  bool is_next(std::string_view token) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::vector<Token> tokens_;
  std::string where_;
  std::size_t line_, at_ = 0;
  int depth_ = 0;
};

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
