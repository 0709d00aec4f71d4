// Networks of about equal size that read a sequence of digits, and say at its last position which digit was the first.
#pragma once

#include <seppo/autograd/ops.h>
#include <seppo/models/transformer_layers.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/modules/positional_encoding.h>

#include <optional>
#include <span>
#include <vector>

namespace race {

using seppo::Tensor;

constexpr int kDigits = 10, kWidth = 32;

enum class Kind { gru, convolution, dilated, transformer };

// A gated recurrent network (Cho et al. 2014).
struct Gru {
  explicit Gru(const seppo::Scope& s)
      : from_input(s / "from_input", kWidth, 3 * kHidden),
        from_state(s / "from_state", kHidden, 3 * kHidden),
        output(s / "output", kHidden, kDigits) {}
  Tensor operator()(const Tensor& x) const;  // [sequences, length, kWidth] -> [sequences, kDigits]

  static constexpr int kHidden = 56;
  seppo::Linear from_input, from_state, output;
};

// Three layers, each of which sees the same position and four before it, `dilation` apart.
struct Convolutions {
  Convolutions(const seppo::Scope& s, const std::vector<int>& dilations);
  Tensor operator()(Tensor x) const;

  static constexpr int kKernel = 5;
  // How many positions the last one sees, its own included.
  int field() const;

  struct Layer {
    Layer(const seppo::Scope& s, int d)
        : dilation(d), map(s / "map", kKernel * kWidth, kWidth), norm(s / "norm", kWidth) {}
    Tensor operator()(const Tensor& x) const;

    int dilation;
    seppo::Linear map;
    seppo::LayerNorm norm;
  };
  std::vector<Layer> layers;
  seppo::Linear output;
};

struct Attention {
  explicit Attention(const seppo::Scope& s, int length);
  Tensor operator()(const Tensor& x) const;

  seppo::PositionalEncoding positions;
  seppo::Encoder encoder;
  seppo::Linear output;
};

struct Network {
  Network(const seppo::Scope& s, Kind kind, int length);

  // Scores of the first digit of each sequence. [sequences, kDigits]
  Tensor operator()(std::span<const int> digits) const;

  // Operations between the first position and the last: steps of a recurrent network, layers of the others. Nothing if
  // the last position does not see the first.
  std::optional<int> path() const;

  int length;
  seppo::Embedding embedding;
  std::optional<Gru> gru;
  std::optional<Convolutions> convolutions;
  std::optional<Attention> attention;
};

}  // namespace race
