// Learns byte-level BPE from texts (Sennrich et al. 2016; of bytes, Radford et al. 2019): of all neighbouring tokens in
// their words, the most frequent pair becomes a token of its own, again and again.
//
//   BpeLearner learner;
//   for (const std::string& text : texts) learner.add(text);
//   write_text("mine/tokenizer.json", learner.learn({.tokens = 4096}).dump());
//   const Tokenizer tokenizer = read_tokenizer("mine");  // tokenizer_folder.h
//
// Merges and ids are those of BpeTrainer in Hugging Face's package, also where several pairs are equally frequent: of
// these, the one with the lower ids comes first.
#pragma once

#include "pre_tokenizers.h"

#include "../../autograd/core/real.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct BpeOptions {
  int tokens = 4096;       // of the vocabulary, with the special token and the 256 bytes; fewer if pairs run out
  std::int64_t least = 2;  // how often a pair must occur to become a token
  std::string special = "<|endoftext|>";  // token 0, which ends a text
};

class BpeLearner {
 public:
  BpeLearner();

  // Counts the words of a text, as GPT-2 splits it; bytes that are not UTF-8 separate words. Takes memory for each word
  // that is new.
  void add(std::string_view text);

  // The tokenizer.json (tokenizer_json.h). Texts may be added afterwards, and learned again. Throws ArgumentError if
  // options.tokens is below 257 or options.least below 1.
  nlohmann::json learn(const BpeOptions& options = {}) const;

 private:
  void count(std::string_view word);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::vector<PreTokenizer> steps_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;  // of words
};

}  // namespace SEPPO_ABI
}  // namespace seppo
