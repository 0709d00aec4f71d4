// Predictor: an encoder that classifies each position of a sequence (UvA deep learning course,
// tutorial 6): input network, positional encoding, encoder stack, output network.
#pragma once

#include <seppo/models/transformer_layers.h>
#include <seppo/nn/positional_encoding.h>

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
  Positions positions = Positions::sinusoid;
  int max_length = 512;
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
                {.d_model = c.d_model, .n_heads = c.n_heads, .d_ff = c.d_ff, .dropout = c.dropout, .norm = c.norm}),
        output_hidden(s / "output" / "hidden", c.d_model, c.d_model),
        output_norm(s / "output" / "norm", c.d_model),
        output_dropout(c.dropout),
        output(s / "output" / "classes", c.d_model, c.classes) {}

  // Scores of the classes at each position: x [rows, features] -> [rows, classes].
  Tensor operator()(const Tensor& x, Offsets rows, AttentionMaps* maps = nullptr) const {
    const Tensor y = encoder(positions(input(input_dropout(x)), rows), rows, maps);  // [rows, d_model]
    return output(output_dropout(relu(output_norm(output_hidden(y)))));
  }

  PredictorConfig config;
  Dropout input_dropout;
  Linear input;
  PositionalEncoding positions;
  Encoder encoder;
  Linear output_hidden;
  LayerNorm output_norm;
  Dropout output_dropout;
  Linear output;
};

// Row i is the unit vector of symbols[i]: [symbols, classes], on the tape.
Tensor one_hot(std::span<const int> symbols, int classes);

}  // namespace seppo::inline SEPPO_ABI
