// Recursive descent: statements here, expressions in jinja_expression.cpp.
#include "parser.h"

#include "expression.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"
#include "../../../autograd/core/scoped_value.h"

#include <initializer_list>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

constexpr int kMostBlocks = 64;

class Parser {
 public:
  Parser(std::vector<Piece> pieces, std::string_view name) : pieces_(std::move(pieces)), name_(name) {}

  Block parse() {
    Block all = block({});
    check<FormatError>(at_ == pieces_.size(), where(), "has no beginning");
    return all;
  }

 private:
  // The statements up to a block that begins with one of these words, or up to the end.
  Block block(std::initializer_list<std::string_view> ends) {
    const ScopedValue<int> deeper(depth_, depth_ + 1);
    check<FormatError>(depth_ <= kMostBlocks, where(), "more than ", kMostBlocks, " blocks within each other");
    Block all;
    while (at_ < pieces_.size() && !is_end(ends)) {
      Piece& piece = pieces_[at_];
      if (piece.type == Piece::Type::text) {
        all.push_back({.kind = Kind::text, .text = piece.text, .line = piece.line});
        ++at_;
      } else if (piece.type == Piece::Type::output) {
        all.push_back(output());
      } else {
        statement(all);
      }
    }
    return all;
  }

  bool is_end(std::initializer_list<std::string_view> ends) const {
    if (pieces_[at_].type != Piece::Type::block || pieces_[at_].tokens.empty()) return false;
    const std::string& word = pieces_[at_].tokens[0].text;
    for (const std::string_view end : ends)
      if (word == end) return true;
    return false;
  }

  // Of the present tag.
  std::string where() const {
    if (at_ >= pieces_.size()) return name_ + ": the end: ";
    const Piece& piece = pieces_[at_];
    return name_ + ":" + std::to_string(piece.line) + ": " + std::string(printable(piece.text, 120)) + ": ";
  }
  // The tokens of the present tag, which is passed.
  ExpressionParser take() {
    const std::string place = where();
    Piece& piece = pieces_[at_++];
    return ExpressionParser(std::move(piece.tokens), place, piece.line);
  }
  // The block that ends another is next.
  void expect(std::string_view word) {
    const bool is_there = at_ < pieces_.size() && is_end({word});
    check<FormatError>(is_there, where(), "where {% ", word, " %} is due");
    ExpressionParser tag = take();
    tag.name();
    tag.expect_end();
  }

  // Of a statement that has variables of its own.
  Block body(std::string_view end) {
    const ScopedValue<int> inner(scopes_, scopes_ + 1);
    const ScopedValue<bool> outside(is_in_loop_, false);
    Block made = block({end});
    expect(end);
    return made;
  }

  Statement output() {
    Statement made{.kind = Kind::output, .line = pieces_[at_].line};
    ExpressionParser tag = take();
    made.expression = tag.expression();
    tag.expect_end();
    return made;
  }

  void statement(Block& all) {
    const std::string place = where();
    const std::size_t line = pieces_[at_].line;
    ExpressionParser tag = take();
    const std::string word = tag.name();
    if (word == "if") {
      all.push_back(condition(tag, line));
    } else if (word == "for") {
      all.push_back(loop(tag, line));
    } else if (word == "set") {
      all.push_back(set(tag, line));
    } else if (word == "macro") {
      check<FormatError>(scopes_ == 0, place, "a macro within a loop or another block is not supported");
      all.push_back(macro(tag, line));
    } else if (word == "break" || word == "continue") {
      tag.expect_end();
      check<FormatError>(is_in_loop_, place, "is in no loop");
      all.push_back({.kind = word == "break" ? Kind::leave : Kind::proceed, .line = line});
    } else if (word == "generation") {
      tag.expect_end();
      all.push_back({.kind = Kind::generation, .body = body("endgeneration"), .line = line});
    } else {
      fail<FormatError>(place, "is not supported");
    }
  }

  Statement condition(ExpressionParser& tag, std::size_t line) {
    Statement made{.kind = Kind::condition, .line = line};
    made.expression = tag.expression();
    tag.expect_end();
    made.body = block({"elif", "else", "endif"});
    if (at_ < pieces_.size() && is_end({"elif"})) {
      const std::size_t next = pieces_[at_].line;
      ExpressionParser other = take();
      other.name();
      const ScopedValue<int> deeper(depth_, depth_ + 1);
      made.otherwise.push_back(condition(other, next));
      return made;
    }
    if (at_ < pieces_.size() && is_end({"else"})) {
      expect("else");
      made.otherwise = block({"endif"});
    }
    expect("endif");
    return made;
  }

  Statement loop(ExpressionParser& tag, std::size_t line) {
    Statement made{.kind = Kind::loop, .line = line};
    made.names = tag.names();
    tag.expect("in");
    made.expression = tag.expression_without_choice();
    if (tag.accept("if")) made.filter = tag.expression();
    tag.expect_end();
    const ScopedValue<int> inner(scopes_, scopes_ + 1);
    {
      const ScopedValue<bool> inside(is_in_loop_, true);
      made.body = block({"else", "endfor"});
    }
    if (at_ < pieces_.size() && is_end({"else"})) {
      expect("else");
      made.otherwise = block({"endfor"});
    }
    expect("endfor");
    return made;
  }

  Statement set(ExpressionParser& tag, std::size_t line) {
    Statement made{.kind = Kind::set, .line = line};
    made.names = tag.names();
    if (tag.accept(".")) made.text = tag.name();
    if (tag.accept("=")) {
      made.expression = tag.expression();
      tag.expect_end();
      return made;
    }
    tag.expect_end();
    made.kind = Kind::set_block;
    made.body = body("endset");
    return made;
  }

  Statement macro(ExpressionParser& tag, std::size_t line) {
    Statement made{.kind = Kind::macro, .line = line};
    made.text = tag.name();
    tag.expect("(");
    while (!tag.accept(")")) {
      if (!made.names.empty()) tag.expect(",");
      made.names.push_back(tag.name());
      made.defaults.push_back(tag.accept("=") ? tag.expression() : nullptr);
    }
    tag.expect_end();
    made.body = body("endmacro");
    return made;
  }

  std::vector<Piece> pieces_;
  std::string name_;
  std::size_t at_ = 0;
  int depth_ = 0, scopes_ = 0;  // blocks within each other, and those with variables of their own
  bool is_in_loop_ = false;
};

}  // namespace

Block parse_template(std::string_view source, std::string_view name) {
  return Parser(cut_template(source, name), name).parse();
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
