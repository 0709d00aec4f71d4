// A recursive descent through the pattern: groups, atoms with their repetitions, escapes, and classes of characters.
#include "oniguruma.h"

#include "unicode_sets.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr int kMostNested = 200;
constexpr std::size_t kMostBytes = 1 << 14;
constexpr const char* kBeyond = "a letter beyond ASCII where case is ignored";
constexpr const char* kEnd = "the end, where more is needed,";

// In Unicode, one letter is the other case of each of these pairs: s t of U+FB06, for example.
const std::set<std::string_view> kFoldedPairs{"ff", "fi", "fl", "ss", "st"};

// One character, or a set of characters; the text is the body of a PCRE2 class, or its complement.
struct Item {
  std::string body;
  bool is_set = false, is_complement = false;
};

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view name) : in_(pattern), name_(name) {}

  std::string translate() {
    while (!is_end()) {
      alternatives();
      if (!is_end()) out_ += take();  // a parenthesis too many, which PCRE2 reports
    }
    return out_;
  }

 private:
  bool is_end() const { return at_ == in_.size(); }
  bool sees(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  bool sees_one_of(std::string_view characters) const {
    return !is_end() && characters.find(in_[at_]) != characters.npos;
  }
  char take() {
    if (is_end()) refuse(kEnd);
    return in_[at_++];
  }
  bool take_if(std::string_view text) {
    const bool is_there = sees(text);
    if (is_there) at_ += text.size();
    return is_there;
  }
  // A whole character of UTF-8.
  std::string_view take_character() {
    if (is_end()) refuse(kEnd);
    const std::size_t length = character_length(in_.substr(at_));
    if (length == 0) refuse("a byte that is not UTF-8");
    at_ += length;
    return in_.substr(at_ - length, length);
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail<FormatError>(name_, ": the pattern '", printable(in_), "': ", what, " is not supported");
  }
  void enter() {
    if (++nested_ > kMostNested) refuse("a nesting so deep");
  }

  // Until a ')' or the end.
  void alternatives() {
    enter();
    const bool ignored_case = ignores_case_;
    while (!is_end() && !sees(")")) {
      if (take_if("|")) {
        out_ += '|';
        last_letter_ = 0;
        continue;
      }
      const std::size_t begin = out_.size();
      if (atom()) repetitions(begin);
    }
    ignores_case_ = ignored_case;
    --nested_;
  }

  // False if there is nothing that can be repeated.
  bool atom() {
    const char letter = std::exchange(last_letter_, char{0});
    if (take_if("(")) return group();
    if (sees("\\")) return escape();
    if (take_if("["))
      out_ += character_class();
    else if (sees_one_of("^$.*+?"))
      out_ += take();
    else
      literal(take_character(), letter);
    return true;
  }

  void literal(std::string_view character, char before) {
    out_ += quoted(character);
    if (!ignores_case_) return;
    if (character.size() > 1) refuse(kBeyond);
    last_letter_ = static_cast<char>(std::tolower(static_cast<unsigned char>(character[0])));
    if (kFoldedPairs.contains(std::string{before, last_letter_})) refuse("a pair like 'ss' where case is ignored");
  }

  // Behind the opening parenthesis.
  bool group() {
    if (sees("*")) refuse("(*");
    if (!take_if("?")) return body("(?:");
    if (take_if("#")) {
      while (take() != ')') continue;
      return false;
    }
    for (const char* kind : {":", "=", "!", ">", "<=", "<!"})
      if (take_if(kind)) return body(std::string("(?") + kind);
    if (take_if("<")) {
      while (take() != '>') continue;
      return body("(?:");
    }
    return options();
  }

  bool body(const std::string& open) {
    out_ += open;
    alternatives();
    if (take_if(")")) out_ += ')';
    return true;
  }

  // i, and m, which is PCRE2's s. Options without a group of their own hold until the end of the group around them.
  bool options() {
    std::string open = "(?";
    const bool ignored_case = ignores_case_;
    for (bool is_on = true; !sees_one_of(":)");) {
      const char option = take();
      if (option == '-')
        is_on = false;
      else if (option == 'i')
        ignores_case_ = is_on;
      else if (option != 'm')
        refuse(std::string("(?") + option);
      open += option == 'm' ? 's' : option;
    }
    const bool is_group = take() == ':';
    out_ += open + ":";
    alternatives();
    ignores_case_ = ignored_case;
    if (!is_group || take_if(")")) out_ += ')';
    return is_group;
  }

  void wrap(std::size_t begin) {
    out_.insert(begin, "(?:");
    out_ += ')';
  }

  // Each repetition applies to all that precedes it, from `begin` in the output.
  void repetitions(std::size_t begin) {
    for (bool is_first = true; sees_one_of("*+?{"); is_first = false) {
      const std::size_t start = at_;
      std::string times, suffixes = "?+";
      if (take_if("{")) {
        const std::optional<std::string> found = interval();
        if (!found) {
          at_ = start;
          return;
        }
        times = *found;
        suffixes = times.find(',') == times.npos ? "" : "?";
      } else {
        times = take();
      }
      last_letter_ = 0;
      if (!is_first) wrap(begin);
      out_ += times;
      if (sees_one_of(suffixes)) out_ += take();
    }
  }

  // Behind '{': "{2}", "{2,}", "{2,3}", "{,3}"; anything else is no interval.
  std::optional<std::string> interval() {
    const std::string least = digits();
    const bool is_range = take_if(",");
    const std::string most = is_range ? digits() : "";
    if (!take_if("}") || (least.empty() && most.empty())) return {};
    return "{" + (least.empty() ? "0" : least) + (is_range ? "," : "") + most + "}";
  }

  std::string digits() {
    std::string all;
    while (sees_one_of("0123456789")) all += take();
    return all;
  }

  // False for an assertion, which cannot be repeated.
  bool escape() {
    const std::string word = std::string("[") + kLoneWordSet + "]";
    const std::string before = "(?<=" + word + ")", not_before = "(?<!" + word + ")";
    const std::string behind = "(?=" + word + ")", not_behind = "(?!" + word + ")";
    const std::pair<const char*, std::string> assertions[] = {
        {"\\A", "\\A"},
        {"\\z", "\\z"},
        {"\\Z", "\\Z"},
        {"\\b", "(?:" + before + not_behind + "|" + not_before + behind + ")"},
        {"\\B", "(?:" + before + behind + "|" + not_before + not_behind + ")"}};
    for (const auto& [ours, theirs] : assertions)
      if (take_if(ours)) {
        out_ += theirs;
        return false;
      }
    Item item = escaped();
    if (item.body == kWordSet) item.body = kLoneWordSet;
    out_ += item.is_set ? (item.is_complement ? "[^" : "[") + item.body + "]" : item.body;
    return true;
  }

  // An escape that stands for characters, within a class or not.
  Item escaped() {
    ++at_;  // the backslash
    const std::string_view character = take_character();
    const char c = character[0];
    const bool is_upper = c >= 'A' && c <= 'Z';
    switch (std::tolower(static_cast<unsigned char>(c))) {
      case 's':
        return {kSpaceSet, true, is_upper};
      case 'w':
        return {kWordSet, true, is_upper};
      case 'd':
        return {R"(\p{Nd})", true, is_upper};
      case 'h':
        return {kHexadecimalSet, true, is_upper};
      case 'p':
        return property(is_upper);
      default:
        break;
    }
    static const std::map<char, int> kControls{{'t', 9},  {'n', 10}, {'v', 11}, {'f', 12},
                                               {'r', 13}, {'a', 7},  {'e', 27}, {'b', 8}};
    if (const auto found = kControls.find(c); found != kControls.end()) return {code_point(found->second)};
    if (c == 'x' || c == 'u') return {code_point(hexadecimal(c))};
    if (std::isalnum(static_cast<unsigned char>(c))) refuse(std::string("\\") + c);
    return {quoted(character)};
  }

  // "\xHH", "\x{H...}" or "\uHHHH", behind the letter. A byte of two digits is a character up to 7F.
  int hexadecimal(char kind) {
    const bool is_braced = kind == 'x' && take_if("{");
    std::string text;
    while (sees_one_of("0123456789abcdefABCDEF") && text.size() < (is_braced ? 6U : kind == 'u' ? 4U : 2U))
      text += take();
    if (text.empty() || (kind == 'u' && text.size() < 4) || (is_braced && !take_if("}")))
      refuse(std::string("\\") + kind);
    const int code = std::stoi(text, nullptr, 16);
    if (kind == 'x' && !is_braced && code > 0x7F) refuse("a byte beyond \\x7F");
    if (ignores_case_ && code > 0x7F) refuse(kBeyond);
    return code;
  }

  static std::string code_point(int code) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "\\x{%X}", static_cast<unsigned>(code));
    return text.data();
  }

  // A character that stands for itself, within a class or not.
  static std::string quoted(std::string_view character) {
    const auto c = static_cast<unsigned char>(character[0]);
    if (c < ' ' || c == 0x7F) return code_point(c);
    return std::string(c < 0x80 && !std::isalnum(c) ? "\\" : "") + std::string(character);
  }

  Item property(bool is_complement) {
    if (!take_if("{")) refuse("\\p without braces");
    if (take_if("^")) is_complement = !is_complement;
    std::string given, simple;
    while (!sees("}")) given += take_character();
    take();
    for (const char c : given)
      if (c != ' ' && c != '-' && c != '_') simple += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool is_name = std::ranges::all_of(simple, [](unsigned char c) { return std::isalnum(c); });
    if (!is_name || simple.empty()) refuse("\\p{" + std::string(printable(given)) + "}");
    return named(simple, is_complement);
  }

  Item named(const std::string& simple, bool is_complement) const {
    if (ignores_case_ && is_of_one_case(simple)) refuse("a set of one case where case is ignored");
    return {property_set(simple), true, is_complement};
  }

  // "[:alpha:]" or "[:^alpha:]".
  Item posix() {
    at_ += 2;
    const bool is_complement = take_if("^");
    std::string simple;
    while (!sees(":]")) simple += take();
    at_ += 2;
    if (!is_posix_set(simple)) refuse("[:" + std::string(printable(simple)) + ":]");
    return named(simple, is_complement);
  }

  // A union of characters and sets.
  struct Union {
    std::string body;
    std::vector<std::string> others;  // expressions that match one character

    std::string text(const char* open) const {
      if (others.empty()) return open + body + "]";
      std::string all = body.empty() ? "(?:" : "(?:[" + body + "]|";
      for (std::size_t i = 0; i < others.size(); ++i) all += (i > 0 ? "|" : "") + others[i];
      return all + ")";
    }
  };

  // An expression that matches one character, of a class behind its opening bracket.
  std::string character_class() {
    enter();
    const bool is_complement = take_if("^");
    std::vector<Union> operands(1);
    for (bool is_first = true; is_first || !sees("]"); is_first = false) {
      if (take_if("&&"))
        operands.emplace_back();
      else
        member(operands.back());
    }
    take();
    --nested_;
    for (const Union& operand : operands)
      if (operand.body.empty() && operand.others.empty()) refuse("an empty class");
    if (operands.size() == 1 && operands[0].others.empty()) return operands[0].text(is_complement ? "[^" : "[");
    std::string all;
    for (const Union& operand : operands) {
      const bool is_last = &operand == &operands.back();
      all += is_last ? operand.text("[") : "(?=" + operand.text("[") + ")";
    }
    return is_complement ? "(?:(?!" + all + ")\\p{Any})" : "(?:" + all + ")";
  }

  void member(Union& operand) {
    if (sees("[") && !sees("[:")) {
      ++at_;
      operand.others.push_back(character_class());
      return;
    }
    const Item item = sees("[:") ? posix() : sees("\\") ? escaped() : Item{quoted(class_character())};
    if (item.is_complement) {
      operand.others.push_back("[^" + item.body + "]");
      return;
    }
    operand.body += item.body;
    if (item.is_set || !sees("-") || in_.substr(at_).starts_with("-]") || in_.substr(at_).starts_with("-&&")) return;
    ++at_;
    if (sees("[")) refuse("a range that ends with a set");
    const Item end = sees("\\") ? escaped() : Item{quoted(class_character())};
    if (end.is_set) refuse("a range that ends with a set");
    operand.body += "-" + end.body;
  }

  std::string_view class_character() {
    const std::string_view character = take_character();
    if (ignores_case_ && character.size() > 1) refuse(kBeyond);
    return character;
  }

  std::string_view in_, name_;
  std::string out_;
  std::size_t at_ = 0;
  int nested_ = 0;
  bool ignores_case_ = false;
  char last_letter_ = 0;  // of a literal, where case is ignored
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern, std::string_view name) {
  check<FormatError>(pattern.size() <= kMostBytes, name, ": the pattern '", printable(pattern), "': has ",
                     pattern.size(), " bytes, more than ", kMostBytes);
  return Translator(pattern, name).translate();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
