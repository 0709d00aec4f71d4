// The reversal task and its model: an encoder that predicts, at each position, the symbol at the mirrored position.
// From tutorial 6 of the UvA deep learning course.
#pragma once

#include "app/course_positions.h"

#include "encoder_models.h"

#include <seppo/nn/data/ragged.h>

#include <vector>

namespace reversal {

using seppo::Offsets;
using seppo::Ragged;
using seppo::Tensor;

constexpr int kSymbols = 10;  // the digits
constexpr int kLength = 16;

struct ModelConfig {
  seppo::LayerConfig layer = {.d_model = 32, .n_heads = 1, .d_ff = 64, .dropout = 0};
  int n_layers = 1;
  examples::Positions positions = examples::Positions::sinusoid;
  bool plain = false;

  void fields(seppo::ConfigVisitor& v) {
    layer.fields(v);
    v("n_layers", n_layers, {1, 64}, "encoder layers");
    v("positions", positions, examples::kPositionsHelp);
    v("plain", plain, "plainer model: one norm for both sublayers, dropout after it, no output network");
  }
  void validate() const {
    layer.validate();
    seppo::check<seppo::ArgumentError>(!plain || layer.norm == seppo::Norm::post, "the plain model needs norm post");
  }
};

// The plain model's layer: one layer norm for both sublayers, and dropout after it.
struct PlainLayer {
  PlainLayer(const seppo::Scope& s, const seppo::LayerConfig& c)
      : self_attn(s / "self_attn", c.d_model, c.n_heads, {.dropout = c.attention_dropout, .bias = c.bias}),
        ffn(s / "ffn", c.d_model, c.d_ff, {.activation = c.activation, .bias = c.bias}),
        add_norm(s / "norm1", c) {
    add_norm.options.dropout_before = 0;
    add_norm.options.dropout_after = c.dropout;
  }
  Tensor operator()(const Tensor& x, Offsets rows) const {  // [rows, d_model]
    return add_norm(add_norm(x, [&](const Tensor& z) { return self_attn(z, rows); }), ffn);
  }
  seppo::MultiHeadAttention self_attn;
  seppo::FeedForward ffn;
  seppo::AddNorm add_norm;
};

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& c)
      : config(c),
        predictor(s, {.features = kSymbols,
                      .classes = kSymbols,
                      .layer = c.layer,
                      .n_layers = c.plain ? 0 : c.n_layers,
                      .output_network = !c.plain,
                      .positions = examples::library_positions(c.positions),
                      .max_length = kLength}) {
    examples::set_course_table(predictor.positions, s / "positions", c.positions, c.layer.d_model);
    for (int i = 0; c.plain && i < c.n_layers; ++i) layers.emplace_back(s / "encoder" / i, c.layer);
  }

  // Scores of the symbols at each position. [positions, symbols]
  Tensor operator()(const Ragged& input) const {
    Tensor x = predictor.embed(seppo::one_hot(input.tokens, kSymbols));
    x = predictor.encode(x, input.offsets);
    for (const PlainLayer& layer : layers) x = layer(x, input.offsets);
    return predictor.classify(x);
  }

  ModelConfig config;
  examples::Predictor predictor;
  std::vector<PlainLayer> layers;  // of the plain model
};

}  // namespace reversal
