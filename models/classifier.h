// Classifier: an encoder that predicts one class for a whole sequence. The same as Predictor (predictor.h), with the
// positions pooled into one vector between encoder and output network.
#pragma once

#include <seppo/models/predictor.h>
#include <seppo/nn/batch.h>

namespace seppo::inline SEPPO_ABI {

// How the positions of a sequence become one vector.
enum class Pooling {
  class_token,  // a learned vector stands before the sequence; what the encoder makes of it (Devlin et al. 2018)
  mean,
  max
};

struct ClassifierConfig {
  int features = 0;  // of each input position
  int classes = 0;
  int d_model = 32;
  int n_heads = 1;
  int d_ff = 64;
  int n_layers = 1;
  double dropout = 0;
  Norm norm = Norm::post;
  Positions positions = Positions::sinusoid;
  int max_length = 512;  // of the input
  Pooling pooling = Pooling::class_token;
};

struct Classifier {
  Classifier(const Scope& s, const ClassifierConfig& c);

  // Scores of the classes: x [rows, features], sequences that are not empty -> [sequences, classes].
  Tensor operator()(const Tensor& x, Offsets rows, AttentionMaps* maps = nullptr) const;

  ClassifierConfig config;
  Linear input;
  std::vector<Tensor> class_token;  // [1, d_model], if it is used
  PositionalEncoding positions;
  Encoder encoder;
  OutputNetwork output_network;
  Linear output;
};

// One vector for each sequence, [sequences, d]: its first row (class_token), or the mean or the largest of its rows.
// Throws ShapeError for an empty sequence.
Tensor pool(const Tensor& x, Offsets rows, Pooling pooling);

}  // namespace seppo::inline SEPPO_ABI
