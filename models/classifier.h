// Classifier: a Predictor (predictor.h) that gives one class to a whole sequence: its positions are pooled into one
// vector before the output network.
#pragma once

#include "predictor.h"
#include "../nn/data/ragged.h"

namespace seppo::inline SEPPO_ABI {

// How the positions of a sequence become one vector.
enum class Pooling {
  class_token,  // a learned vector stands before the sequence; what the encoder makes of it (Devlin et al. 2018)
  mean,
  max
};

struct Classifier {
  // max_length is that of the input; a class token has its own place before it.
  Classifier(const Scope& s, const PredictorConfig& c, Pooling pooling);

  // Scores of the classes: x [rows, features], sequences that are not empty -> [sequences, classes].
  Tensor operator()(const Tensor& x, Offsets rows, AttentionMaps* maps = nullptr) const;

  Pooling pooling;
  Predictor predictor;
  std::vector<Tensor> class_token;  // [1, d_model], if it is used
};

// One vector for each sequence, [sequences, d]: its first row (class_token), or the mean or the largest of its rows.
// Throws ShapeError for an empty sequence.
Tensor pool(const Tensor& x, Offsets rows, Pooling pooling);

}  // namespace seppo::inline SEPPO_ABI
