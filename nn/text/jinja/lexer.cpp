// One pass over the template, tag by tag.
#include "lexer.h"

#include "texts.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

namespace {

constexpr std::string_view kSpaces = " \t\n\r\v\f";

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    add(0x80 | (code & 0x3f));
  } else {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  }
}

// The tokens of a tag.
class TagLexer {
 public:
  TagLexer(std::string_view tag, std::string where) : rest_(tag), where_(std::move(where)) {}

  std::vector<Token> read() {
    std::vector<Token> tokens;
    while (true) {
      rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpaces), rest_.size()));
      if (rest_.empty()) return tokens;
      tokens.push_back(next());
    }
  }

 private:
  Token next() {
    const char first = rest_[0];
    if (first == '\'' || first == '"') return text();
    if (is_digit(first)) return number();
    if (is_letter(first)) return {Token::Type::name, take_while(is_letter)};
    for (const std::string_view mark : {"==", "!=", "<=", ">=", "//", "**"})
      if (rest_.starts_with(mark)) return {Token::Type::mark, take(mark.size())};
    constexpr std::string_view kMarks = "+-*/%~<>=()[]{},.:|";
    check<FormatError>(kMarks.find(first) != kMarks.npos, where_, "'", printable(std::string(1, first)),
                       "' is not supported");
    return {Token::Type::mark, take(1)};
  }

  Token number() {
    std::string digits = take_while(is_digit);
    const bool has_fraction = rest_.size() > 1 && rest_[0] == '.' && is_digit(rest_[1]);
    if (!has_fraction) return {Token::Type::integer, digits};
    digits += take(1);
    return {Token::Type::decimal, digits + take_while(is_digit)};
  }

  Token text() {
    const char quote = rest_[0];
    rest_.remove_prefix(1);
    std::string out;
    while (true) {
      check<FormatError>(!rest_.empty(), where_, "a text has no end");
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == quote) return {Token::Type::text, out};
      if (c != '\\' || rest_.empty()) {
        out += c;
        continue;
      }
      escape(out);
    }
  }

  void escape(std::string& out) {
    const char c = rest_[0];
    rest_.remove_prefix(1);
    constexpr std::string_view kNames = "ntrbfva\\'\"";
    constexpr std::string_view kMeant = "\n\t\r\b\f\v\a\\'\"";
    const std::size_t found = kNames.find(c);
    check<FormatError>(!is_digit(c) && c != 'N' && c != 'U', where_, "'\\", std::string(1, c), "' is not supported");
    if (found != kNames.npos) {
      out += kMeant[found];
    } else if (c == 'x' || c == 'u') {
      append_utf8(out, code(c == 'x' ? 2 : 4));
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }

  std::uint32_t code(std::size_t digits) {
    std::uint32_t value = 0;
    const std::string text = take(std::min(digits, rest_.size()));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    const bool is_whole = text.size() == digits && end == text.data() + text.size() && error == std::errc();
    const bool is_half = value >= 0xd800 && value < 0xe000;
    check<FormatError>(is_whole && !is_half, where_, "'", printable(text), "' is the number of no character");
    return value;
  }

  std::string take(std::size_t size) {
    std::string taken(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return taken;
  }
  std::string take_while(bool (*is_part)(char)) {
    const auto end = std::ranges::find_if_not(rest_, is_part);
    return take(static_cast<std::size_t>(end - rest_.begin()));
  }

  std::string_view rest_;
  std::string where_;
};

// Where a tag's content ends: before `close`, outside of texts and brackets.
std::size_t end_of_tag(std::string_view content, std::string_view close) {
  char quote = 0;
  int depth = 0;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const char c = content[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (depth == 0 && content.substr(i).starts_with(close)) {
      return i;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    }
  }
  return content.npos;
}

class Cutter {
 public:
  Cutter(std::string_view source, std::string_view name) : source_(source), name_(name) {}

  std::vector<Piece> cut() {
    while (at_ < source_.size()) {
      const std::size_t tag = next_tag();
      add_text(source_.substr(at_, tag - at_));
      at_ = tag;
      if (at_ < source_.size()) read_tag();
    }
    return std::move(pieces_);
  }

 private:
  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      const char second = source_[i + 1];
      if (source_[i] == '{' && (second == '{' || second == '%' || second == '#')) return i;
    }
    return source_.size();
  }

  void read_tag() {
    const char kind = source_[at_ + 1];
    const std::string_view inner = source_.substr(at_ + 2);
    const std::string close = {kind == '{' ? '}' : kind, '}'};
    const std::size_t size = kind == '#' ? inner.find(close) : end_of_tag(inner, close);
    const std::size_t line = line_of(at_);
    const std::string where = name_ + ":" + std::to_string(line) + ": ";
    check<FormatError>(size != inner.npos, where, "{", std::string(1, kind), " without ", close);
    std::string_view content = inner.substr(0, size);
    const bool is_block = kind != '{';
    trim_before(content, is_block);
    at_ += 2 + size + 2;
    trim_after(content, is_block);
    if (kind == '#') return;
    Piece piece{is_block ? Piece::Type::block : Piece::Type::output, {}, {}, line};
    piece.text = source_.substr(at_of(inner) - 2, size + 4);
    piece.tokens = TagLexer(content, where + printable(piece.text, 120) + ": ").read();
    pieces_.push_back(std::move(piece));
  }

  std::size_t at_of(std::string_view part) const { return static_cast<std::size_t>(part.data() - source_.data()); }

  // A minus removes all blanks before the tag. Those before a block at the beginning of a line go too, without a plus.
  void trim_before(std::string_view& content, bool is_block) {
    const bool has_minus = content.starts_with('-');
    const bool has_plus = content.starts_with('+');
    if (has_minus || has_plus) content.remove_prefix(1);
    if (!has_text_) return;
    std::string& text = pieces_.back().text;
    if (has_minus) {
      text.erase(text.size() - trailing_space(text));
    } else if (is_block && !has_plus) {
      const std::size_t line = text.rfind('\n') + 1;
      const bool begins_line = line > 0 || text_begins_line_;
      if (begins_line && leading_space(std::string_view(text).substr(line)) == text.size() - line) text.erase(line);
    }
  }

  void trim_after(std::string_view& content, bool is_block) {
    const bool has_minus = content.ends_with('-');
    const bool has_plus = content.ends_with('+');
    if (has_minus || has_plus) content.remove_suffix(1);
    if (has_minus) {
      at_ += leading_space(source_.substr(at_));
    } else if (is_block && !has_plus && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
  }

  void add_text(std::string_view text) {
    has_text_ = !text.empty();
    if (!has_text_) return;
    text_begins_line_ = at_ == 0 || source_[at_ - 1] == '\n';
    pieces_.push_back({Piece::Type::text, std::string(text), {}, line_of(at_)});
  }

  std::size_t line_of(std::size_t at) {
    line_ += static_cast<std::size_t>(std::ranges::count(source_.substr(counted_, at - counted_), '\n'));
    counted_ = at;
    return line_;
  }

  std::string_view source_;
  std::string name_;
  std::size_t at_ = 0, line_ = 1, counted_ = 0;
  bool has_text_ = false, text_begins_line_ = true;  // before the tag
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<Piece> cut_template(std::string_view source, std::string_view name) {
  std::string lines = replaced(replaced(source, "\r\n", "\n", -1), "\r", "\n", -1);
  if (lines.ends_with('\n')) lines.pop_back();  // as Jinja does
  return Cutter(lines, name).cut();
}

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
