// Predictor: an encoder that classifies each position of a sequence (UvA deep learning course,
// tutorial 6): input network, positional encoding, encoder stack, output network.
#pragma once

#include "transformer_layers.h"
#include "../nn/layers/positional_encoding.h"

namespace seppo::inline SEPPO_ABI {

struct PredictorConfig {
  int features = 0;  // of each input position
  int classes = 0;
  int d_model = 32;
  int n_heads = 1;
  int d_ff = 64;
  int n_layers = 1;
  double dropout = 0;
  double input_dropout = 0;
  Norm norm = Norm::post;
  DropoutPlace dropout_place = DropoutPlace::before_residual;
  bool shares_norm = false;        // one LayerNorm for both sublayers of a layer
  bool has_output_network = true;  // else a linear map gives the classes
  Positions positions = Positions::sinusoid;
  int max_length = 512;
};

// What stands between the encoder and the classes.
struct OutputNetwork {
  OutputNetwork(const Scope& s, int d_model, double dropout)
      : hidden(s / "hidden", d_model, d_model), norm(s / "norm", d_model), dropout(dropout) {}
  Tensor operator()(const Tensor& x) const { return dropout(relu(norm(hidden(x)))); }  // [rows, d_model]
  Linear hidden;
  LayerNorm norm;
  Dropout dropout;
};

struct Predictor {
  // The input network starts at half of Xavier's range: while inputs are small beside the positions,
  // attention finds positional patterns about an epoch sooner.
  Predictor(const Scope& s, const PredictorConfig& c)
      : config(c),
        input_dropout(c.input_dropout),
        input(s / "input", c.features, c.d_model, init_xavier_uniform(0.5)),
        positions(s / "positions", c.positions, c.max_length, c.d_model),
        encoder(s / "encoder", c.n_layers,
                {.d_model = c.d_model,
                 .n_heads = c.n_heads,
                 .d_ff = c.d_ff,
                 .dropout = c.dropout,
                 .norm = c.norm,
                 .dropout_place = c.dropout_place,
                 .shares_norm = c.shares_norm}),
        output_network(c.has_output_network ? std::vector{OutputNetwork(s / "output", c.d_model, c.dropout)}
                                            : std::vector<OutputNetwork>()),
        output(s / "output" / "classes", c.d_model, c.classes) {}

  // Scores of the classes at each position: x [rows, features] -> [rows, classes].
  Tensor operator()(const Tensor& x, Offsets rows, AttentionMaps* maps = nullptr) const {
    return classify(encode(embed(x), rows, maps));
  }
  // Its parts, of which all but the last return [rows, d_model].
  Tensor embed(const Tensor& x) const { return input(input_dropout(x)); }
  Tensor encode(const Tensor& x, Offsets rows, AttentionMaps* maps) const {
    return encoder(positions(x, rows), rows, maps);
  }
  Tensor classify(const Tensor& x) const { return output(output_network.empty() ? x : output_network.front()(x)); }

  PredictorConfig config;
  Dropout input_dropout;
  Linear input;
  PositionalEncoding positions;
  Encoder encoder;
  std::vector<OutputNetwork> output_network;  // none or one
  Linear output;
};

}  // namespace seppo::inline SEPPO_ABI
