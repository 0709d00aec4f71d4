// How good the translations of a model are, and whether its texts allow to say so.
#pragma once

#include "app/run.h"
#include "translate/examples.h"

#include <seppo/models/decoding/beam.h>
#include <seppo/nn/text/bleu.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace translate {

inline constexpr std::size_t kChunk = 32;  // pairs scored at a time by one thread

struct Score {
  double loss = 0;        // mean over known target tokens under teacher forcing; perplexity is its exp
  double accuracy = 0;    // of the predictions of all target tokens; that of an unknown one is never right
  seppo::Bleu bleu = {};  // of words separated by spaces; the word <unk> is never right
  std::optional<seppo::Bleu> bleu_characters = {};  // if the references are written without blanks
  double exact = 0;   // fraction of translations that equal their reference, and have no <unk>
  double bleu_2 = 0;  // mean of bleu_k with k = 2 over sentences (d2l.h)
  Coverage target = {};
  std::vector<std::string> translations = {};

  nlohmann::json measures() const;
  nlohmann::json summary() const;  // {"val_bleu": ...}: these, the loss, and the number of unknown target tokens
  void print() const;              // "-" stands for what is not defined
};

// By beam search. The ranks (nn/train/ranks.h) share the work, and all must call it.
Score score(const Transformer& model, const Languages& languages, const Examples& examples,
            const seppo::BeamOptions& options);

// The words of each target, as they are scored.
std::vector<Words> references_of(const Languages& languages, std::span<const Pair> pairs);

// Are these references written without blanks between words, as Chinese, Japanese and Thai are? They are taken to be if
// their words have more than 12 characters on average, or if none has the four words that BLEU needs.
bool lack_blanks(std::span<const Words> references);

// The shares of unknown tokens, in words. Throws UsageError, naming --tokens, if one of them is above a half: the model
// would learn to write <unk>.
std::string checked_coverage(Tokenizer::Kind tokens, const Examples& train, const Examples& validation);

}  // namespace translate
