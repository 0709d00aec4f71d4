// Where the pairs for training and validation come from, and how their texts become tokens.
#pragma once

#include "translate/text.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace translate {

struct Pair {
  std::string source, target;
};

// Parallel texts: two files whose lines correspond, or one of lines "source TAB target" and perhaps more tabs and text.
struct Files {
  std::filesystem::path src = {}, tgt = {}, pairs = {};

  // The options of these names, each after `prefix`, such as "val_".
  void fields(seppo::ConfigVisitor& v, const std::string& prefix = "");
  void validate(const std::string& prefix = "") const;  // throws UsageError naming an option
  bool are_given() const { return !src.empty() || !pairs.empty(); }
  // Throws FileError, or FormatError for a line without a tab, no lines, or files of different numbers of lines.
  std::vector<Pair> read() const;
};

struct DataConfig {
  Files train = {};  // if none are given: number tasks (numbers.h)
  Files val = {};    // if none are given: the last `validation` pairs
  int max_pairs = 0, validation = 1000;
  Tokenizer tokenizer = {};
  int min_frequency = 2, subwords = 8000;

  void fields(seppo::ConfigVisitor& v);
  void validate() const;  // throws UsageError
};

// The source and target of each pair.
std::vector<std::string> texts_of(const std::vector<Pair>& pairs);

struct Corpus {
  std::vector<Pair> train, validation;
  std::size_t shared() const;  // the number of validation pairs that are also training pairs
};
// Reads or generates the pairs. Throws UsageError if none are left for training.
Corpus load(const DataConfig& config, std::uint64_t seed);

// The tokenizer, and the vocabularies of the training texts.
Languages make_languages(const DataConfig& config, const std::vector<Pair>& train);

}  // namespace translate
