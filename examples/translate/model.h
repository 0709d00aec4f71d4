// Translation with the encoder-decoder Transformer: texts as token ids, the loss, and how a model is scored.
#pragma once

#include "app/attention_pictures.h"
#include "translate/text.h"

#include <seppo/models/decoding/beam.h>
#include <seppo/nn/text/bleu.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/trainer.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace translate {

using seppo::Bleu;
using seppo::Ragged;
using seppo::Transformer;

// Texts as token ids, ending with kEos.
struct Examples {
  std::vector<std::vector<int>> sources, targets;

  std::size_t size() const { return sources.size(); }
  std::vector<int> lengths() const;  // of source and target together
  // Removes the pairs with a side of more than `most` tokens, or truncates that side. Returns the number of such pairs.
  std::size_t drop_long(int most);
  std::size_t truncate_long(int most);
};
Examples encode(const Languages& languages, std::span<const Pair> pairs);

// The tokens of texts, without their ends, and how many of these are <unk>.
struct Coverage {
  std::size_t tokens = 0, unknown = 0;

  double share() const { return tokens > 0 ? static_cast<double>(unknown) / static_cast<double>(tokens) : 0; }
};
Coverage coverage(std::span<const std::vector<int>> texts);

// Cross-entropy of the target tokens of these rows, summed, for training. <unk> is never counted as a right prediction.
seppo::ShardLoss loss(const Transformer& model, const Examples& examples, std::span<const int> rows,
                      double label_smoothing);

// The same over all rows, in eval mode, without label smoothing, and without the targets that are <unk>: how well the
// model predicts that a word is one it does not know says nothing about its translations.
seppo::Sums loss_of_all(const Transformer& model, const Examples& examples);

// The best translations of each source, by beam search.
std::vector<std::vector<seppo::Hypothesis>> translate(const Transformer& model,
                                                      std::span<const std::vector<int>> sources,
                                                      const seppo::BeamOptions& options);

// The best translation of each source; the ranks (nn/train/ranks.h) share the work, and all must call it.
std::vector<std::vector<int>> best_translations(const Transformer& model, std::span<const std::vector<int>> sources,
                                                const seppo::BeamOptions& options);

inline constexpr std::size_t kChunk = 32;  // pairs scored at a time by one thread

struct Score {
  double loss = 0;      // mean over known target tokens under teacher forcing; perplexity is its exp
  double accuracy = 0;  // of the predictions of all target tokens; that of an unknown one is never right
  Bleu bleu = {};       // of words separated by spaces; the word <unk> is never right
  std::optional<Bleu> bleu_characters = {};  // if the references are written without blanks
  double exact = 0;                          // fraction of translations that equal their reference, and have no <unk>
  double bleu_2 = 0;                         // mean of bleu_k with k = 2 over sentences (d2l.h)
  Coverage source = {}, target = {};
  std::vector<std::string> translations = {};
  std::size_t truncated = 0;  // pairs longer than the model's max_length
};
// Are these references written without blanks between words, as Chinese, Japanese and Thai are? They are taken to be if
// their words have more than 12 characters on average, or if none has the four words that BLEU needs.
bool lack_blanks(std::span<const Words> references);
Score score(const Transformer& model, const Languages& languages, std::span<const Pair> pairs,
            const seppo::BeamOptions& options);

// A translation, and what every layer and head attends to while the model reads the source and writes the target.
examples::Sample sample_of(const Transformer& model, const Languages& languages, std::span<const int> source,
                           std::span<const int> target);

}  // namespace translate
