// Bert: an encoder of texts that learns by filling in masked tokens (Devlin et al. 2019).
//
//   const Bert bert(parameters.root() / "bert", {.vocabulary = 30522});
//   const Tensor x = bert(texts);                                             // [tokens, d_model]
//   const Tensor vectors = mean_of_texts(x, texts.offsets);                   // [texts, d_model]
//   const MaskedHead head(parameters.root() / "cls", bert.config);
//   const Tensor scores = head(index_select(x, 0, masked), bert.words);       // [masked, vocabulary]
//
// Hugging Face's weights, and weights for Hugging Face: bert_weights() (nn/io/foreign_weights.h).
#pragma once

#include "../autograd/core/check.h"
#include "../nn/data/ragged.h"
#include "../nn/modules/dropout.h"
#include "../nn/modules/embedding.h"
#include "../nn/modules/positional_encoding.h"
#include "transformer_layers.h"

#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

// The defaults are those of bert-base, without its vocabulary.
struct BertConfig {
  int vocabulary = 0;
  LayerConfig layer = {.d_model = 768,
                       .n_heads = 12,
                       .d_ff = 3072,
                       .dropout = 0.1,
                       .attention_dropout = 0.1,
                       .norm = Norm::post,
                       .activation = Activation::gelu,
                       .bias = true,
                       .eps = 1e-12};
  int n_layers = 12;
  int max_length = 512;  // of a text
  int segments = 2;      // kinds of tokens: of the first text of a pair, and of the second

  void fields(ConfigVisitor& v) {
    v("vocabulary", vocabulary, {1, 1 << 30}, "tokens that the model knows", {.source = Source::data});
    layer.fields(v);
    v("n_layers", n_layers, {0, 1000}, "layers");
    v("max_length", max_length, {1, 1 << 20}, "longest text in tokens");
    v("segments", segments, {1, 65536}, "kinds of tokens");
  }
  void validate() const { layer.validate(); }
};

struct Bert {
  using Config = BertConfig;
  // Throws ArgumentError if a field is out of range.
  Bert(const Scope& s, const BertConfig& c)
      : config(check_config("bert", c)),
        words(s / "words", c.vocabulary, c.layer.d_model, init_normal(0.02)),
        positions(s / "positions", Positions::learned, c.max_length, c.layer.d_model),
        segments(s / "segments", c.segments, c.layer.d_model, init_normal(0.02)),
        norm(s / "norm", c.layer.d_model, c.layer.layer_norm()),
        dropout(c.layer.dropout),
        layers(s / "layers", c.n_layers, c.layer) {}

  // What the encoder makes of each token, [tokens, d_model]. `segment` is that of each token; 0 throughout if it is
  // not given. Throws ShapeError for another number of segments than of tokens.
  Tensor operator()(const Ragged& texts, List<int> segment = {}) const {
    check(segment.empty() || segment.size() == texts.tokens.size(), "bert: ", segment.size(), " segments of ",
          texts.tokens.size(), " tokens");
    const auto ids = positions.ids(texts.offsets);
    const Tensor x = words(texts.tokens, {.positions = positions.table, .position_ids = ids});  // [tokens, d_model]
    const Tensor kind = segment.empty() ? slice(segments.weight, 0, 0, 1) : segments(segment);
    return layers(dropout(norm(x + kind)), texts.offsets);
  }

  BertConfig config;
  Embedding words;
  PositionalEncoding positions;
  Embedding segments;
  LayerNorm norm;
  Dropout dropout;
  Encoder layers;
};

// Scores what a masked token could be; the output weights are those of the embedding.
struct MaskedHead {
  MaskedHead(const Scope& s, const BertConfig& c)
      : dense(s / "dense", c.layer.d_model, c.layer.d_model),
        norm(s / "norm", c.layer.d_model, c.layer.layer_norm()),
        activation(c.layer.activation),
        bias(s.parameter("bias", {c.vocabulary}, init_zeros())) {}

  Tensor operator()(const Tensor& x, const Embedding& words) const {  // [rows, d_model] -> [rows, vocabulary]
    return linear(norm(dense(x, activation)), words.weight, bias);
  }

  Linear dense;
  LayerNorm norm;
  Activation activation;
  Tensor bias;
};

// A vector for each text: the mean of its rows of x. [tokens, d_model] -> [texts, d_model]; 0 for an empty text.
inline Tensor mean_of_texts(const Tensor& x, Offsets offsets) {
  std::vector<int> text_of_row;
  std::vector<double> shares;
  for (std::size_t text = 0; text + 1 < offsets.size(); ++text)
    for (int row = offsets[text]; row < offsets[text + 1]; ++row) {
      text_of_row.push_back(static_cast<int>(text));
      shares.push_back(1.0 / (offsets[text + 1] - offsets[text]));
    }
  const int texts = static_cast<int>(offsets.size()) - 1;
  return index_add(zeros({texts, x.size(1)}), 0, text_of_row, x * tensor({x.size(0), 1}, shares));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
