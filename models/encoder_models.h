// Models made of an encoder alone: Predictor gives a class to each position of a sequence, Classifier one to the whole
// sequence. Input network, positional encoding, encoder, output network, after the UvA deep learning course,
// tutorial 6.
#pragma once

#include "../nn/layers/dropout.h"
#include "../nn/layers/positional_encoding.h"
#include "transformer_layers.h"

namespace seppo::inline SEPPO_ABI {

struct PredictorConfig {
  int features = 0;  // of each input position
  int classes = 0;
  LayerConfig layer = {.d_model = 32, .n_heads = 1, .d_ff = 64, .dropout = 0};
  int n_layers = 1;
  double input_dropout = 0;
  bool output_network = true;  // else a linear map gives the classes
  Positions positions = Positions::sinusoid;
  int max_length = 512;

  void fields(ConfigVisitor& v) {
    v("features", features, {1, 1 << 20});
    v("classes", classes, {1, 1 << 20});
    layer.fields(v);
    v("n_layers", n_layers, {0, 1000}, "layers of the encoder");
    v("input_dropout", input_dropout, {0, 1}, "dropout of the input features");
    v("output_network", output_network, "a hidden layer before the classes");
    v("positions", positions, "positional encoding");
    v("max_length", max_length, {1, 1 << 20}, "longest sequence");
  }
  void validate() const { layer.validate(); }
};

// Between the encoder and the classes: Dropout(ReLU(LayerNorm(x W^T + b))).
struct OutputNetwork {
  OutputNetwork(const Scope& s, const LayerConfig& c)
      : hidden(s / "hidden", c.d_model, c.d_model, {.bias = c.bias}),
        norm(s / "norm", c.d_model, {.eps = c.eps, .bias = c.bias}),
        dropout(c.dropout) {}
  Tensor operator()(const Tensor& x) const { return dropout(relu(norm(hidden(x)))); }  // [rows, d_model]
  Linear hidden;
  LayerNorm norm;
  Dropout dropout;
};

struct Predictor {
  using Config = PredictorConfig;
  // Throws ArgumentError if a field is out of range.
  Predictor(const Scope& s, const PredictorConfig& config);

  // Scores of the classes at each position: x [rows, features] -> [rows, classes].
  Tensor operator()(const Tensor& x, Offsets rows) const { return classify(encode(embed(x), rows)); }
  // Its parts.
  Tensor embed(const Tensor& x) const { return input(input_dropout(x)); }                           // [rows, d_model]
  Tensor encode(const Tensor& x, Offsets rows) const { return encoder(positions(x, rows), rows); }  // [rows, d_model]
  Tensor classify(const Tensor& x) const { return output(output_network ? (*output_network)(x) : x); }

  PredictorConfig config;
  Dropout input_dropout;
  Linear input;
  PositionalEncoding positions;
  Encoder encoder;
  std::optional<OutputNetwork> output_network;
  Linear output;
};

// How the positions of a sequence become one vector.
enum class Pooling {
  class_token,  // a learned vector stands before the sequence; its output stands for the sequence (Devlin et al. 2018)
  mean,
  max
};

inline std::span<const char* const> enum_names(Pooling) {
  static constexpr const char* kNames[] = {"class_token", "mean", "max"};
  return kNames;
}

struct ClassifierConfig {
  PredictorConfig predictor;  // max_length is that of the input; a class token has a position of its own before it
  Pooling pooling = Pooling::class_token;

  void fields(ConfigVisitor& v) {
    predictor.fields(v);
    v("pooling", pooling, "how the positions of a sequence become one vector");
  }
  void validate() const { predictor.validate(); }
};

struct Classifier {
  using Config = ClassifierConfig;
  // Throws ArgumentError if a field is out of range.
  Classifier(const Scope& s, const ClassifierConfig& config);

  // Scores of the classes: x [rows, features], sequences that are not empty -> [sequences, classes].
  Tensor operator()(const Tensor& x, Offsets rows) const;

  ClassifierConfig config;
  Predictor predictor;
  std::optional<Tensor> class_token;  // [1, d_model]
};

// One vector for each sequence, [sequences, d]: its first row (class_token), or the mean or the maximum of its rows.
// Throws ShapeError for an empty sequence.
Tensor pool(const Tensor& x, Offsets rows, Pooling pooling);

}  // namespace seppo::inline SEPPO_ABI
