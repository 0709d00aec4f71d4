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

constexpr int kOperands = 2 * kLargest + 1;
constexpr int kDrawnRows = 5000;
constexpr std::size_t kLongest = 200;  // bytes of arithmetic; std::regex recurses over the text

std::array<int, 3> signed_digits(int value) {
  const int size = std::abs(value);
  return {value < 0 ? kNegative : kPositive, size / 10, size % 10};
}

// sign d d -> value
int signed_value(std::span<const int> tokens) {
  const int size = 10 * tokens[1] + tokens[2];
  return tokens[0] == kNegative ? -size : size;
}

bool is_digit(int token) { return token >= 0 && token <= 9; }

bool in_range(const Expression& e) { return std::abs(e.left) <= kLargest && std::abs(e.right) <= kLargest; }

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

Expression parse_tokens(std::string_view text) {
  const std::vector<int> t = tokenize(text);
  if (t.size() == kSourceLength) {
    const std::span all(t);
    const Expression e{signed_value(all.subspan(1)), signed_value(all.subspan(5)), t[4] == kSubtract};
    // Malformed tokens differ from the source() of the expression that was read from them.
    if (in_range(e) && std::equal(t.begin(), t.end(), e.source().begin())) return e;
  }
  fail<FormatError>("expression '", printable(text),
                    "' is not: BOS sign digit digit add|subtract sign digit digit EOS,",
                    " operands -49..49, zero POSITIVE");
}

const json& list_of(const json& content, const char* key, const std::string& name) {
  check<FormatError>(content.is_object() && content.contains(key) && content[key].is_array(), name,
                     ": is not a JSON object with the list ", key);
  return content[key];
}

const std::string& text_of(const json& value) {
  if (!value.is_string()) fail<FormatError>("'", printable(value.dump()), "' is not text");
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

int Expression::index() const { return ((left + kLargest) * kOperands + right + kLargest) * 2 + (subtract ? 1 : 0); }

Expression Expression::of(int index) {
  return {index / 2 / kOperands - kLargest, index / 2 % kOperands - kLargest, index % 2 == 1};
}

std::array<int, kSourceLength> Expression::source() const {
  const auto a = signed_digits(left), b = signed_digits(right);
  return {kBos, a[0], a[1], a[2], subtract ? kSubtract : kAdd, b[0], b[1], b[2], kEos};
}

std::array<int, kTargetLength> Expression::target() const {
  const auto r = signed_digits(result());
  return {kBos, r[0], r[1], r[2], kEos};
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

Dataset all_expressions() {
  Dataset data;
  for (int i = 0; i < kExpressions; ++i) data.add(Expression::of(i), Expression::of(i).target());
  return data;
}

Dataset drawn_dataset(std::uint64_t seed) {
  Dataset data;
  seppo::RandomStream random(seed, seppo::Purpose::data);
  for (int i = 0; i < kDrawnRows; ++i) {
    const Expression e = Expression::of(static_cast<int>(random.below(kExpressions)));
    data.add(e, e.target());
  }
  return data;
}

Dataset read_dataset(const std::filesystem::path& path) {
  const std::string name = seppo::printable_path(path);
  const json content = seppo::parse_json(seppo::read_text(path), name);
  const json &in = list_of(content, "inp_expression", name), &out = list_of(content, "out_expression", name);
  check<FormatError>(in.size() == out.size(), name, ": ", in.size(), " expressions but ", out.size(),
                     " results in inp_expression and out_expression");
  check<FormatError>(in.size() >= 10, name, ": ", in.size(), " rows are too few; a tenth is kept for validation");

  Dataset data;
  for (std::size_t i = 0; i < in.size(); ++i) try {
      const Expression e = parse_tokens(text_of(in[i]));
      const std::vector<int> result = tokenize(text_of(out[i]));
      check<FormatError>(!result.empty() && result[0] == kBos && parse_result(std::span(result).subspan(1)), "result '",
                         printable(text_of(out[i])), "' is not: BOS sign digit digit EOS");
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

Expression parse_expression(std::string_view text) {
  static const std::regex kArithmetic(R"(\s*(-?\d{1,9})\s*([+-])\s*(-?\d{1,9})\s*)");
  if (text.find("BOS") != std::string_view::npos) return parse_tokens(text);
  std::cmatch parts;
  const bool is_arithmetic =
      text.size() < kLongest && std::regex_match(text.data(), text.data() + text.size(), parts, kArithmetic);
  check<FormatError>(is_arithmetic, "expression '", printable(text),
                     "' is neither arithmetic, such as '-30 - -34', nor tokens, BOS ... EOS");
  const Expression e{std::stoi(parts[1]), std::stoi(parts[3]), parts[2] == "-"};
  check<FormatError>(in_range(e), "expression '", printable(text), "' has an operand outside -49..49");
  return e;
}

std::optional<int> parse_result(std::span<const int> t) {
  const bool is_result =
      t.size() == 4 && (t[0] == kPositive || t[0] == kNegative) && is_digit(t[1]) && is_digit(t[2]) && t[3] == kEos;
  return is_result ? std::optional(signed_value(t)) : std::nullopt;
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
