// The AddSub task: expressions such as "BOS NEGATIVE 30 subtract NEGATIVE 34 EOS" and their results,
// "BOS POSITIVE 04 EOS". Operands are -49..49, so there are 99 * 99 * 2 = 19,602 expressions; zero is
// always POSITIVE. From the course EECS 498-007/598-005 of the University of Michigan.
#pragma once

#include <seppo/nn/data/ragged.h>
#include <seppo/nn/text/vocabulary.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace addsub {

constexpr int kLargest = 49;  // operand
constexpr int kExpressions = (2 * kLargest + 1) * (2 * kLargest + 1) * 2;
constexpr int kSourceLength = 9;  // BOS sign d d operation sign d d EOS
constexpr int kTargetLength = 5;  // BOS sign d d EOS

// Ids 0..9 are the digits; these follow.
enum Token { kPositive = 10, kNegative, kAdd, kSubtract, kBos, kEos, kTokens };
const seppo::Vocabulary& vocabulary();

struct Expression {
  int left = 0, right = 0;
  bool subtract = false;

  int result() const { return subtract ? left - right : left + right; }
  int index() const;  // 0 .. kExpressions-1
  static Expression of(int index);
  std::array<int, kSourceLength> source() const;
  std::array<int, kTargetLength> target() const;
  std::string arithmetic() const;  // "-30 - -34"
};

struct Dataset {
  std::vector<Expression> rows;
  seppo::Ragged source, target;  // one per row; the targets as given in the data

  std::size_t size() const { return rows.size(); }
  void add(const Expression& expression, std::span<const int> target_tokens);
  Dataset pick(std::span<const int> some) const;  // these rows
};

// All 19,602 expressions, by index.
Dataset all_expressions();
// 5,000 expressions drawn with replacement.
Dataset drawn_dataset(std::uint64_t seed);
// The course's JSON file: {"inp_expression": [...], "out_expression": [...]}. Throws FileError or
// FormatError naming the file, the row and the rule.
Dataset read_dataset(const std::filesystem::path& path);

struct Split {
  std::vector<int> train, validation;  // rows
};
// The first tenth of a permutation is for validation. `how` is "course", the permutation that numpy
// (and so scikit-learn's train_test_split) draws for seed 0, or a seed for ours; otherwise throws ArgumentError.
Split split_dataset(std::size_t rows, const std::string& how);

// Parses an expression given as tokens or as arithmetic. Throws seppo::FormatError.
Expression parse_expression(std::string_view text);

// "POSITIVE", "0", "4", "EOS" -> 4; nothing unless the tokens are sign, digit, digit, EOS.
std::optional<int> parse_result(std::span<const int> tokens);

// Tokens as the data writes them: two digits together, "BOS POSITIVE 04 EOS".
std::string token_text(std::span<const int> tokens);

}  // namespace addsub
