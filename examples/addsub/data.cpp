// Converts expressions to tokens and back, reads the course's file, and splits the data.
#include "addsub/data.h"

#include "app/words.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/random.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <random>
#include <regex>

namespace addsub {

using nlohmann::json;
using seppo::check;
using seppo::fail;
using seppo::FormatError;
using seppo::printable;

namespace {

constexpr std::size_t kLongest = 200;  // bytes of arithmetic; std::regex recurses over the text

int operands(int digits) { return 2 * largest(digits) + 1; }

// value -> sign d d
void add_number(std::vector<int>& tokens, int value, int digits) {
  tokens.push_back(value < 0 ? kNegative : kPositive);
  tokens.insert(tokens.end(), static_cast<std::size_t>(digits), 0);
  int rest = std::abs(value);
  for (auto digit = tokens.rbegin(); rest > 0; ++digit, rest /= 10) *digit = rest % 10;
}

// sign d d -> value
int signed_value(std::span<const int> tokens) {
  int size = 0;
  for (const int digit : tokens.subspan(1)) size = 10 * size + digit;
  return tokens[0] == kNegative ? -size : size;
}

bool is_digit(int token) { return token >= 0 && token <= 9; }

bool in_range(const Expression& e) { return std::max(std::abs(e.left), std::abs(e.right)) <= largest(e.digits); }

// Splits at whitespace; a number becomes its digits.
std::vector<int> tokenize(std::string_view text) {
  std::vector<int> ids;
  for (const std::string_view word : examples::split_blanks(text))
    if (word.find_first_not_of("0123456789") == std::string_view::npos) {
      for (const char digit : word) ids.push_back(digit - '0');
    } else {
      check<FormatError>(vocabulary().contains(word), "token '", printable(word),
                         "' is neither digits nor POSITIVE, NEGATIVE, add, subtract, BOS or EOS");
      ids.push_back(vocabulary().id(word));
    }
  return ids;
}

// The form of an expression: "digit digit" for two digits.
std::string digits_text(int digits) { return digits == 2 ? "digit digit" : "digit digit digit"; }

Expression parse_tokens(std::string_view text, int digits) {
  const std::vector<int> t = tokenize(text);
  if (static_cast<int>(t.size()) == source_length(digits)) {
    const auto number = static_cast<std::size_t>(digits) + 1;  // its tokens
    const std::span all(t);
    const int left = signed_value(all.subspan(1, number)), right = signed_value(all.subspan(number + 2, number));
    const Expression e{left, right, t[number + 1] == kSubtract, digits};
    // Malformed tokens differ from the source() of the expression that was read from them.
    if (in_range(e) && t == e.source()) return e;
  }
  const int most = largest(digits);
  const std::string number = "sign " + digits_text(digits);
  fail<FormatError>("expression '", printable(text), "' is not: BOS ", number, " add|subtract ", number,
                    " EOS, operands -", most, "..", most, ", zero POSITIVE");
}

const json& list_of(const json& content, const char* key, const std::string& name) {
  check<FormatError>(content.is_object() && content.contains(key) && content[key].is_array(), name,
                     ": is not a JSON object with the list ", key);
  return content[key];
}

const std::string& text_of(const json& value) {
  if (!value.is_string()) fail<FormatError>("'", seppo::printable_json(value), "' is not text");
  return value.get_ref<const std::string&>();
}

// numpy.random.RandomState(0).permutation(n): Fisher-Yates on MT19937, each index drawn by masking
// and rejection.
std::vector<int> numpy_permutation(int n) {
  std::mt19937 random(0);
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::uint32_t i = static_cast<std::uint32_t>(n) - 1; i > 0; --i) {
    std::uint32_t mask = i;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    std::uint32_t j;
    do j = static_cast<std::uint32_t>(random()) & mask;
    while (j > i);
    std::swap(order[i], order[j]);
  }
  return order;
}

}  // namespace

const seppo::Vocabulary& vocabulary() {
  static const seppo::Vocabulary tokens{"0", "1", "2",        "3",        "4",   "5",        "6",   "7",
                                        "8", "9", "POSITIVE", "NEGATIVE", "add", "subtract", "BOS", "EOS"};
  return tokens;
}

int Expression::index() const {
  const int most = largest(digits);
  return ((left + most) * operands(digits) + right + most) * 2 + (subtract ? 1 : 0);
}

Expression Expression::of(int index, int digits) {
  const int count = operands(digits), most = largest(digits);
  return {index / 2 / count - most, index / 2 % count - most, index % 2 == 1, digits};
}

std::vector<int> Expression::source() const {
  std::vector<int> tokens{kBos};
  add_number(tokens, left, digits);
  tokens.push_back(subtract ? kSubtract : kAdd);
  add_number(tokens, right, digits);
  tokens.push_back(kEos);
  return tokens;
}

std::vector<int> Expression::target() const {
  std::vector<int> tokens{kBos};
  add_number(tokens, result(), digits);
  tokens.push_back(kEos);
  return tokens;
}

std::string Expression::arithmetic() const { return fmt::format("{} {} {}", left, subtract ? '-' : '+', right); }

void Dataset::add(const Expression& expression, std::span<const int> target_tokens) {
  rows.push_back(expression);
  source.add(expression.source());
  target.add(target_tokens);
}

Dataset Dataset::pick(std::span<const int> some) const {
  Dataset picked;
  picked.source = source.pick(some);
  picked.target = target.pick(some);
  for (const int row : some) picked.rows.push_back(rows[static_cast<std::size_t>(row)]);
  return picked;
}

Dataset all_expressions(int digits) {
  Dataset data;
  for (int i = 0; i < expressions(digits); ++i) data.add(Expression::of(i, digits), Expression::of(i, digits).target());
  return data;
}

Dataset drawn_dataset(std::uint64_t seed, int digits, int rows) {
  Dataset data;
  seppo::RandomStream random(seed, seppo::Purpose::data);
  for (int i = 0; i < rows; ++i) {
    const Expression e = Expression::of(random.index(expressions(digits)), digits);
    data.add(e, e.target());
  }
  return data;
}

Dataset read_dataset(const std::filesystem::path& path, int digits) {
  const std::string name = seppo::printable_path(path);
  const json content = seppo::parse_json(seppo::read_text(path), name);
  const json &in = list_of(content, "inp_expression", name), &out = list_of(content, "out_expression", name);
  check<FormatError>(in.size() == out.size(), name, ": ", in.size(), " expressions but ", out.size(),
                     " results in inp_expression and out_expression");
  check<FormatError>(in.size() >= 10, name, ": ", in.size(), " rows are too few; a tenth is kept for validation");

  Dataset data;
  for (std::size_t i = 0; i < in.size(); ++i) try {
      const Expression e = parse_tokens(text_of(in[i]), digits);
      const std::vector<int> result = tokenize(text_of(out[i]));
      const bool is_right = !result.empty() && result[0] == kBos && parse_result(std::span(result).subspan(1), digits);
      check<FormatError>(is_right, "result '", printable(text_of(out[i])), "' is not: BOS sign ", digits_text(digits),
                         " EOS");
      data.add(e, result);
    } catch (const seppo::Error& e) {
      fail<FormatError>(name, ": row ", i, ": ", e.what());
    }
  return data;
}

Split split_dataset(std::size_t rows, const std::string& how) {
  const int n = static_cast<int>(rows);
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(how.data(), how.data() + how.size(), seed);
  check<seppo::ArgumentError>(how == "course" || (error == std::errc() && end == how.data() + how.size()), "split '",
                              printable(how), "' is neither 'course' nor a seed");
  const std::vector<int> order =
      how == "course" ? numpy_permutation(n) : seppo::random_permutation(n, {seed, seppo::Purpose::data, 1});
  const auto cut = order.begin() + (n + 9) / 10;
  return {{cut, order.end()}, {order.begin(), cut}};
}

Expression parse_expression(std::string_view text, int digits) {
  static const std::regex kArithmetic(R"(\s*(-?\d{1,9})\s*([+-])\s*(-?\d{1,9})\s*)");
  if (text.find("BOS") != std::string_view::npos) return parse_tokens(text, digits);
  std::cmatch parts;
  const bool is_arithmetic =
      text.size() < kLongest && std::regex_match(text.data(), text.data() + text.size(), parts, kArithmetic);
  check<FormatError>(is_arithmetic, "expression '", printable(text),
                     "' is neither arithmetic, such as '-30 - -34', nor tokens, BOS ... EOS");
  const Expression e{std::stoi(parts[1]), std::stoi(parts[3]), parts[2] == "-", digits};
  const int most = largest(digits);
  check<FormatError>(in_range(e), "expression '", printable(text), "' has an operand outside -", most, "..", most);
  return e;
}

std::optional<int> parse_result(std::span<const int> t, int digits) {
  if (static_cast<int>(t.size()) != target_length(digits) - 1 || t.back() != kEos) return {};
  const std::span<const int> number = t.first(t.size() - 1);
  const bool has_sign = t[0] == kPositive || t[0] == kNegative;
  if (!has_sign || !std::ranges::all_of(number.subspan(1), is_digit)) return {};
  return signed_value(number);
}

std::string token_text(std::span<const int> tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool joined = i > 0 && is_digit(tokens[i]) && is_digit(tokens[i - 1]);
    if (i > 0 && !joined) text += ' ';
    text += vocabulary().token(tokens[i]);
  }
  return text;
}

}  // namespace addsub
