// Encoder-only models: Predictor predicts a class for each position of a sequence, Classifier one for the whole
// sequence. They consist of input network, positional encoding, encoder and output network, as in the UvA deep learning
// course, tutorial 6.
#pragma once

#include <seppo/models/transformer.h>
#include <seppo/nn/modules/dropout.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/modules/positional_encoding.h>

#include <optional>
#include <vector>

namespace examples {

struct PredictorConfig {
  int features = 0;  // of each input position
  int classes = 0;
  seppo::LayerConfig layer = {.d_model = 32, .n_heads = 1, .d_ff = 64, .dropout = 0};
  int n_layers = 1;
  double input_dropout = 0;
  bool output_network = true;  // otherwise a linear layer gives the logits
  seppo::Positions positions = seppo::Positions::sinusoid;
  int max_length = 512;

  void fields(seppo::ConfigVisitor& v) {
    v("features", features, {1, 1 << 20}, "numbers that describe a position", {.source = seppo::Source::data});
    v("classes", classes, {1, 1 << 20}, "classes to choose from", {.source = seppo::Source::data});
    layer.fields(v);
    v("n_layers", n_layers, {0, 1000}, "layers of the encoder");
    v("input_dropout", input_dropout, {0, 1}, "dropout of the input features");
    v("output_network", output_network, "a hidden layer before the classes");
    v("positions", positions, "positional encoding");
    v("max_length", max_length, {1, 1 << 20}, "longest sequence");
  }
  void validate() const { layer.validate(); }
};

// Between the encoder and the classes: seppo::Dropout(ReLU(seppo::LayerNorm(x W^T + b))).
struct OutputNetwork {
  OutputNetwork(const seppo::Scope& s, const seppo::LayerConfig& c)
      : hidden(s / "hidden", c.d_model, c.d_model, {.bias = c.bias}),
        norm(s / "norm", c.d_model, {.eps = c.eps, .bias = c.bias}),
        dropout(c.dropout) {}
  seppo::Tensor operator()(const seppo::Tensor& x) const { return dropout(relu(norm(hidden(x)))); }  // [rows, d_model]
  seppo::Linear hidden;
  seppo::LayerNorm norm;
  seppo::Dropout dropout;
};

struct Predictor {
  using Config = PredictorConfig;
  // Throws ArgumentError if a field is out of range.
  Predictor(const seppo::Scope& s, const PredictorConfig& config);

  // Scores of the classes at each position: x [rows, features] -> [rows, classes].
  seppo::Tensor operator()(const seppo::Tensor& x, seppo::Offsets rows) const {
    return classify(encode(embed(x), rows));
  }
  // Its parts.
  seppo::Tensor embed(const seppo::Tensor& x) const { return input(input_dropout(x)); }  // [rows, d_model]
  seppo::Tensor encode(const seppo::Tensor& x, seppo::Offsets rows) const {              // [rows, d_model]
    return encoder(positions(x, rows), rows, {.positions = positions.for_attention(positions.ids(rows))});
  }
  seppo::Tensor classify(const seppo::Tensor& x) const { return output(output_network ? (*output_network)(x) : x); }

  PredictorConfig config;
  seppo::Dropout input_dropout;
  seppo::Linear input;
  seppo::PositionalEncoding positions;
  seppo::Encoder encoder;
  std::optional<OutputNetwork> output_network;
  seppo::Linear output;
};

// How the positions of a sequence become one vector.
enum class Pooling {
  class_token,  // a learned vector is prepended; its output represents the sequence (Devlin et al. 2018)
  mean,
  max
};

inline std::span<const char* const> enum_names(Pooling) {
  static constexpr const char* kNames[] = {"class-token", "mean", "max"};
  return kNames;
}

struct ClassifierConfig {
  PredictorConfig predictor;  // max_length is that of the input; a class token takes one position more
  Pooling pooling = Pooling::class_token;

  void fields(seppo::ConfigVisitor& v) {
    predictor.fields(v);
    v("pooling", pooling, "how the positions of a sequence become one vector");
  }
  void validate() const { predictor.validate(); }
};

struct Classifier {
  using Config = ClassifierConfig;
  // Throws ArgumentError if a field is out of range.
  Classifier(const seppo::Scope& s, const ClassifierConfig& config);

  // Scores of the classes: x [rows, features], sequences that are not empty -> [sequences, classes].
  seppo::Tensor operator()(const seppo::Tensor& x, seppo::Offsets rows) const;

  ClassifierConfig config;
  Predictor predictor;
  std::optional<seppo::Tensor> class_token;  // [1, d_model]
};

// One vector for each sequence, [sequences, d]: its first row (class_token), or the mean or the maximum of its rows.
// Throws ShapeError for an empty sequence.
inline seppo::Tensor pool(const seppo::Tensor& x, seppo::Offsets rows, Pooling pooling) {
  std::vector<seppo::Tensor> vectors;
  for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
    seppo::check(rows[s] < rows[s + 1], "pool: sequence ", s, " is empty");
    if (pooling == Pooling::class_token) {
      vectors.push_back(slice(x, 0, rows[s], rows[s] + 1));
      continue;
    }
    const seppo::Tensor sequence = slice(x, 0, rows[s], rows[s + 1]);  // [its rows, d]
    vectors.push_back(pooling == Pooling::mean ? mean(sequence, 0, true) : amax(sequence, 0, true));
  }
  return concat(vectors);
}

inline PredictorConfig with_position_for_token(const ClassifierConfig& c) {
  PredictorConfig predictor = c.predictor;
  predictor.max_length += c.pooling == Pooling::class_token;
  return predictor;
}

// Prepends the token to the rows of each sequence; `rows` becomes the new offsets.
inline seppo::Tensor put_in_front(const seppo::Tensor& token, const seppo::Tensor& x, std::vector<int>& rows) {
  std::vector<int> order;  // of the rows of x, followed by the token
  for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
    order.push_back(x.size(0));
    for (int row = rows[s]; row < rows[s + 1]; ++row) order.push_back(row);
  }
  for (std::size_t s = 0; s < rows.size(); ++s) rows[s] += static_cast<int>(s);
  return index_select(seppo::concat({x, token}), 0, order);
}

// The input network is initialised with half of Xavier's range: while inputs are small compared with the positional
// encodings, attention finds positional patterns about an epoch sooner.
inline Predictor::Predictor(const seppo::Scope& s, const PredictorConfig& c)
    : config(seppo::check_config("predictor", c)),
      input_dropout(c.input_dropout),
      input(s / "input", c.features, c.layer.d_model, {.bias = c.layer.bias, .init = seppo::init_xavier_uniform(0.5)}),
      positions(s / "positions", c.positions, c.max_length, c.layer.d_model,
                {.n_heads = c.layer.n_heads, .head_width = c.layer.head_width}),
      encoder(s / "encoder", c.n_layers, c.layer),
      output_network(c.output_network ? std::optional<OutputNetwork>(std::in_place, s / "output", c.layer)
                                      : std::nullopt),
      output(s / "output" / "classes", c.layer.d_model, c.classes, {.bias = c.layer.bias}) {}

inline Classifier::Classifier(const seppo::Scope& s, const ClassifierConfig& c)
    : config(seppo::check_config("classifier", c)), predictor(s, with_position_for_token(c)) {
  if (c.pooling == Pooling::class_token)
    class_token = s.parameter("class_token", {1, c.predictor.layer.d_model}, seppo::init_normal(0.02), /*decay=*/false);
}

inline seppo::Tensor Classifier::operator()(const seppo::Tensor& x, seppo::Offsets input_rows) const {
  std::vector<int> rows(input_rows.begin(), input_rows.end());
  seppo::Tensor y = predictor.embed(x);  // [rows, d_model]
  if (class_token) y = put_in_front(*class_token, y, rows);
  return predictor.classify(pool(predictor.encode(y, rows), rows, config.pooling));  // [sequences, classes]
}

}  // namespace examples
