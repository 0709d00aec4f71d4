#include "addsub/data.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>

namespace addsub {

using nlohmann::json;
using seppo::check;
using seppo::fail;
using seppo::FormatError;
using seppo::printable;

namespace {

constexpr int kOperands = 2 * kLargest + 1;
constexpr int kDrawnRows = 5000;

std::array<int, 3> signed_digits(int value) {
  const int size = std::abs(value);
  return {value < 0 ? kNegative : kPositive, size / 10, size % 10};
}

// Splits at blanks; a number becomes its digits.
std::vector<int> tokenize(std::string_view text) {
  std::vector<int> ids;
  for (const std::string_view word : seppo::split_blanks(text)) {
    const bool number = std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number) {
      ids.push_back(vocabulary().id(word));
      continue;
    }
    for (const char digit : word) ids.push_back(digit - '0');
  }
  return ids;
}

// sign d d -> value
int signed_value(std::span<const int> tokens) {
  const int size = 10 * tokens[1] + tokens[2];
  return tokens[0] == kNegative ? -size : size;
}

bool is_digit(int token) { return token >= 0 && token <= 9; }
bool is_sign(int token) { return token == kPositive || token == kNegative; }

Expression parse_tokens(std::string_view text) {
  const std::vector<int> t = tokenize(text);
  check<FormatError>(t.size() == kSourceLength, "expression '", printable(text), "' has ", t.size(),
                     " tokens, not the 9 of: BOS sign digit digit add|subtract sign digit digit EOS");
  const bool shaped = t[0] == kBos && is_sign(t[1]) && is_digit(t[2]) && is_digit(t[3]) &&
                      (t[4] == kAdd || t[4] == kSubtract) && is_sign(t[5]) && is_digit(t[6]) && is_digit(t[7]) &&
                      t[8] == kEos;
  check<FormatError>(shaped, "expression '", printable(text),
                     "' is not: BOS sign digit digit add|subtract sign digit digit EOS");
  const std::span tokens(t);
  const Expression e{signed_value(tokens.subspan(1)), signed_value(tokens.subspan(5)), t[4] == kSubtract};
  check<FormatError>(std::abs(e.left) <= kLargest && std::abs(e.right) <= kLargest, "expression '", printable(text),
                     "' has an operand outside -49..49");
  check<FormatError>(std::equal(t.begin(), t.end(), e.source().begin()), "expression '", printable(text),
                     "' writes zero as NEGATIVE; it is always POSITIVE");
  return e;
}

// "-30 - -34", "12+7"
Expression parse_arithmetic(std::string_view text) {
  std::string rest(text);
  const auto skip_blanks = [&] { rest.erase(0, std::min(rest.find_first_not_of(" \t"), rest.size())); };
  const auto operand = [&] {
    skip_blanks();
    int value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    check<FormatError>(error == std::errc() && std::abs(value) <= kLargest, "expression '", printable(text),
                       "': needs an integer in -49..49 at '", printable(rest), "'");
    rest.erase(0, static_cast<std::size_t>(end - rest.data()));
    return value;
  };
  const int left = operand();
  skip_blanks();
  check<FormatError>(!rest.empty() && (rest[0] == '+' || rest[0] == '-'), "expression '", printable(text),
                     "': needs + or - at '", printable(rest), "'");
  const bool subtract = rest[0] == '-';
  rest.erase(0, 1);
  const int right = operand();
  skip_blanks();
  check<FormatError>(rest.empty(), "expression '", printable(text), "': unexpected '", printable(rest), "' at its end");
  return {left, right, subtract};
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

Dataset drawn_dataset(std::uint64_t seed) {
  Dataset data;
  seppo::RandomStream random(seed, seppo::Purpose::data);
  for (int i = 0; i < kDrawnRows; ++i) {
    data.rows.push_back(Expression::of(static_cast<int>(random.below(kExpressions))));
    data.targets.push_back(data.rows.back().target());
  }
  return data;
}

Dataset read_dataset(const std::filesystem::path& path) {
  const std::string name = printable(path.string(), 120);
  std::ifstream file(path, std::ios::binary);
  check<seppo::FileError>(std::filesystem::is_regular_file(path) && file.good(), name, ": cannot read");
  json content;
  try {
    content = json::parse(file);
  } catch (const json::exception& e) {
    fail<FormatError>(name, ": not valid JSON (", printable(e.what(), 100), ")");
  }
  for (const char* key : {"inp_expression", "out_expression"})
    check<FormatError>(content.is_object() && content.contains(key) && content[key].is_array(), name, ": has no list '",
                       key, "'");
  const json &in = content["inp_expression"], &out = content["out_expression"];
  check<FormatError>(in.size() == out.size(), name, ": ", in.size(), " expressions but ", out.size(), " results");
  check<FormatError>(in.size() >= 10, name, ": ", in.size(), " rows are too few; a tenth is kept for validation");

  Dataset data;
  for (std::size_t i = 0; i < in.size(); ++i) {
    check<FormatError>(in[i].is_string() && out[i].is_string(), name, ": row ", i, " is not text");
    try {
      data.rows.push_back(parse_tokens(in[i].get<std::string>()));
      const std::vector<int> target = tokenize(out[i].get<std::string>());
      check<FormatError>(target.size() == kTargetLength && target[0] == kBos && is_sign(target[1]) &&
                             is_digit(target[2]) && is_digit(target[3]) && target[4] == kEos,
                         "result '", printable(out[i].get<std::string>()), "' is not: BOS sign digit digit EOS");
      std::copy(target.begin(), target.end(), data.targets.emplace_back().begin());
    } catch (const seppo::Error& e) {
      fail<FormatError>(name, ": row ", i, ": ", e.what());
    }
  }
  return data;
}

namespace {

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

Split split_dataset(std::size_t rows, const std::string& how) {
  const int n = static_cast<int>(rows);
  std::uint64_t seed = 0;
  if (how != "course") {
    const auto [end, error] = std::from_chars(how.data(), how.data() + how.size(), seed);
    check<seppo::ArgumentError>(error == std::errc() && end == how.data() + how.size(), "split '", printable(how),
                                "' is neither 'course' nor a seed");
  }
  const std::vector<int> order =
      how == "course" ? numpy_permutation(n) : seppo::random_permutation(n, {seed, seppo::Purpose::data, 1});
  const auto cut = order.begin() + (n + 9) / 10;
  return {{cut, order.end()}, {order.begin(), cut}};
}

Expression parse_expression(std::string_view text) {
  const auto words = seppo::split_blanks(text);
  check<FormatError>(!words.empty(), "expression '' is empty");
  return words.front().find_first_not_of("0123456789+-") == std::string_view::npos ? parse_arithmetic(text)
                                                                                   : parse_tokens(text);
}

bool parse_result(std::span<const int> t, int* value) {
  if (t.size() != 4 || !is_sign(t[0]) || !is_digit(t[1]) || !is_digit(t[2]) || t[3] != kEos) return false;
  *value = signed_value(t);
  return true;
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
