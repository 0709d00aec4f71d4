// The translation model: the encoder-decoder Transformer, its options, its loss, and how it is scored.
#pragma once

#include "app/attention_pictures.h"
#include "translate/text.h"

#include <seppo/models/decoding/beam.h>
#include <seppo/nn/train/bleu.h>
#include <seppo/nn/train/data_parallel.h>

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <vector>

namespace translate {

struct ModelOptions {
  int d_model = 256, n_heads = 8, d_ff = 512, enc_layers = 3, dec_layers = 3;
  int max_tokens = 100;  // of a text, its end included
  double dropout = 0.1;
  std::string norm = "post", positions = "learned";
  bool tie_output = false;

  nlohmann::json to_json() const;
  static ModelOptions from_json(const nlohmann::json& config);
  seppo::TransformerConfig transformer(const Languages& languages) const;
};

// Texts as token ids, ending with kEos.
struct Examples {
  std::vector<std::vector<int>> sources, targets;

  std::size_t size() const { return sources.size(); }
  std::vector<int> lengths() const;  // of source and target together
  // What to do with pairs of which a side is longer than `most` tokens: take them out, or end it there. Returns how
  // many they are.
  std::size_t drop_long(int most);
  std::size_t cut_long(int most);
};
Examples encode(const Languages& languages, std::span<const Pair> pairs);

// Cross-entropy of the target tokens of these rows, summed.
seppo::ShardLoss loss(const seppo::Transformer& model, const Examples& examples, std::span<const int> rows,
                      double label_smoothing);

// exp of the mean loss of a target token, each predicted from the right ones before it, and their accuracy.
struct Perplexity {
  double perplexity = 0, accuracy = 0;
};
Perplexity perplexity(const seppo::Transformer& model, const Examples& examples);

// The best translations of each source, by beam search.
std::vector<std::vector<seppo::Hypothesis>> translate(const seppo::Transformer& model,
                                                      std::span<const std::vector<int>> sources,
                                                      const seppo::BeamOptions& options);

struct Score {
  Perplexity tokens;
  seppo::Bleu bleu;   // of words between blanks
  double exact = 0;   // share of translations that equal their reference
  double bleu_2 = 0;  // mean of bleu_k with k = 2 over sentences (d2l.h)
  std::vector<std::string> translations;
  std::size_t cut = 0;  // pairs longer than the model's max_length
};
Score score(const seppo::Transformer& model, const Languages& languages, std::span<const Pair> pairs,
            const seppo::BeamOptions& options);

// The attention of every layer and head while the model reads the source and writes the target.
seppo::AttentionMaps attention_of(const seppo::Transformer& model, std::span<const int> source,
                                  std::span<const int> target);
examples::AttentionLabels attention_labels(const seppo::AttentionMap& map, const Languages& languages,
                                           std::span<const int> source, std::span<const int> target);

}  // namespace translate
