// Where the pairs for training and validation come from, and how their texts become tokens.
#pragma once

#include "translate/text.h"

#include <seppo/nn/config.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace translate {

struct DataConfig {
  std::filesystem::path src, tgt, pairs;              // if all are empty: number tasks (numbers.h)
  std::filesystem::path val_src, val_tgt, val_pairs;  // if all are empty: the last `validation` pairs
  int max_pairs = 0, validation = 1000;
  Tokenizer::Kind tokens = Tokenizer::Kind::words;
  int min_frequency = 2, subwords = 8000;
  bool normalise = false;

  void fields(seppo::ConfigVisitor& v);
  void validate() const;  // throws UsageError
  bool has_files() const { return !src.empty() || !pairs.empty(); }
  bool has_validation_files() const { return !val_src.empty() || !val_pairs.empty(); }
};

// The texts of --src and --tgt, or of --pairs.
std::vector<Pair> read_files(const std::filesystem::path& src, const std::filesystem::path& tgt,
                             const std::filesystem::path& pairs);

struct Data {
  std::vector<Pair> train, validation;
  std::size_t shared() const;  // the number of validation pairs that are also training pairs
};
// Reads or generates the pairs.
Data load(const DataConfig& config, std::uint64_t seed);

// The tokenizer, and the vocabularies of the training texts.
Languages make_languages(const DataConfig& config, const std::vector<Pair>& train);

}  // namespace translate
