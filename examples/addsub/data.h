// The AddSub task: expressions such as "BOS NEGATIVE 30 subtract NEGATIVE 34 EOS" and their results,
// "BOS POSITIVE 04 EOS". Operands are -49..49, so there are 99 * 99 * 2 = 19,602 expressions; zero is
// always POSITIVE. From the course EECS 498-007/598-005 of the University of Michigan. With three digits, operands are
// -499..499, in 1,996,002 expressions.
#pragma once

#include <seppo/nn/data/ragged.h>
#include <seppo/nn/text/vocabulary.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace addsub {

constexpr int kDigits = 2;  // of each number, in the course
constexpr int kDrawnRows = 5000;

// By the digits of each number, 2 or 3: the largest operand, how many expressions there are, and their tokens.
constexpr int largest(int digits) { return digits == 2 ? 49 : 499; }
constexpr int expressions(int digits = kDigits) { return (2 * largest(digits) + 1) * (2 * largest(digits) + 1) * 2; }
constexpr int source_length(int digits = kDigits) { return 2 * digits + 5; }  // BOS sign d d operation sign d d EOS
constexpr int target_length(int digits = kDigits) { return digits + 3; }      // BOS sign d d EOS

// Ids 0..9 are the digits; these follow.
enum Token { kPositive = 10, kNegative, kAdd, kSubtract, kBos, kEos, kTokens };
const seppo::Vocabulary& vocabulary();

struct Expression {
  int left = 0, right = 0;
  bool subtract = false;
  int digits = kDigits;

  int result() const { return subtract ? left - right : left + right; }
  int index() const;  // 0 .. expressions(digits) - 1
  static Expression of(int index, int digits = kDigits);
  std::vector<int> source() const;
  std::vector<int> target() const;
  std::string arithmetic() const;  // "-30 - -34"
};

struct Dataset {
  std::vector<Expression> rows;
  seppo::Ragged source, target;  // one per row; the targets as given in the data

  std::size_t size() const { return rows.size(); }
  void add(const Expression& expression, std::span<const int> target_tokens);
  Dataset pick(std::span<const int> some) const;  // these rows
};

// All expressions, by index.
Dataset all_expressions(int digits = kDigits);
// Expressions drawn with replacement.
Dataset drawn_dataset(std::uint64_t seed, int digits = kDigits, int rows = kDrawnRows);
// The course's JSON file: {"inp_expression": [...], "out_expression": [...]}. Throws FileError or
// FormatError naming the file, the row and the rule.
Dataset read_dataset(const std::filesystem::path& path, int digits = kDigits);

struct Split {
  std::vector<int> train, validation;  // rows
};
// The first tenth of a permutation is for validation. `how` is "course", the permutation that numpy
// (and so scikit-learn's train_test_split) draws for seed 0, or a seed for ours; otherwise throws ArgumentError.
Split split_dataset(std::size_t rows, const std::string& how);

// Parses an expression given as tokens or as arithmetic. Throws seppo::FormatError.
Expression parse_expression(std::string_view text, int digits = kDigits);

// "POSITIVE", "0", "4", "EOS" -> 4; nothing unless the tokens are a sign, this many digits, and EOS.
std::optional<int> parse_result(std::span<const int> tokens, int digits = kDigits);

// Tokens as the data writes them: digits together, "BOS POSITIVE 04 EOS".
std::string token_text(std::span<const int> tokens);

}  // namespace addsub
