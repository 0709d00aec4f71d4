// Where the pairs for training and validation come from, and how their languages are told.
#pragma once

#include "app/command_line.h"
#include "translate/text.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace translate {

struct DataOptions {
  std::filesystem::path src, tgt, pairs;              // none: number tasks (numbers.h)
  std::filesystem::path val_src, val_tgt, val_pairs;  // none: the last `validation` pairs
  int max_pairs = 0, validation = 1000;
  std::string tokens = "words";
  int min_frequency = 2, subwords = 8000;
  bool normalise = false;

  void add_to(examples::CommandLine& line);
  void validate(const examples::CommandLine& line) const;  // throws UsageError
  bool has_files() const { return !src.empty() || !pairs.empty(); }
  nlohmann::json to_json() const;
};

// The texts that options like --src, --tgt or --pairs name, of which one kind is given.
std::vector<Pair> read_files(const std::filesystem::path& src, const std::filesystem::path& tgt,
                             const std::filesystem::path& pairs);

struct Data {
  std::vector<Pair> train, validation;
};
// Reads or draws the pairs.
Data load(const DataOptions& options, std::uint64_t seed);

// Tokens and vocabularies as the training texts have them.
Languages make_languages(const DataOptions& options, const std::vector<Pair>& train);

}  // namespace translate
