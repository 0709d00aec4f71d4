// The forward passes of the networks.
#include "race/model.h"

namespace race {
namespace {

constexpr int kTransformerLayers = 2;

// The rows of the last position. [sequences, columns]
Tensor at_the_end(const Tensor& x) {
  const int n = x.size(1);
  return reshape(slice(x, 1, n - 1, n), {x.size(0), x.size(2)});
}

}  // namespace

Tensor Gru::operator()(const Tensor& x) const {
  const Tensor inputs = from_input(x);  // of all positions at once; the states come one after another
  Tensor h = seppo::zeros({x.size(0), kHidden});
  for (int t = 0; t < x.size(1); ++t) {
    const Tensor now = reshape(slice(inputs, 1, t, t + 1), {x.size(0), 3 * kHidden});
    const std::vector<Tensor> a = chunk(now, 3, 1), b = chunk(from_state(h), 3, 1);
    const Tensor reset = sigmoid(a[0] + b[0]), update = sigmoid(a[1] + b[1]);
    h = update * h + (1 - update) * tanh(a[2] + reset * b[2]);
  }
  return output(h);
}

Convolutions::Convolutions(const seppo::Scope& s, const std::vector<int>& dilations)
    : output(s / "output", kWidth, kDigits) {
  for (const int dilation : dilations) layers.emplace_back(s / static_cast<int>(layers.size()), dilation);
}

int Convolutions::field() const {
  int field = 1;
  for (const Layer& layer : layers) field += (kKernel - 1) * layer.dilation;
  return field;
}

Tensor Convolutions::Layer::operator()(const Tensor& x) const {
  const int n = x.size(1), before = (kKernel - 1) * dilation;
  const Tensor padded = seppo::concat({seppo::zeros({x.size(0), before, kWidth}), x}, 1);
  std::vector<Tensor> shifted;
  for (int i = 0; i < kKernel; ++i) shifted.push_back(slice(padded, 1, i * dilation, i * dilation + n));
  return norm(x + relu(map(concat(shifted, 2))));
}

Tensor Convolutions::operator()(Tensor x) const {
  for (const Layer& layer : layers) x = layer(x);
  return output(at_the_end(x));
}

Attention::Attention(const seppo::Scope& s, int length)
    : positions(s / "positions", seppo::Positions::sinusoid, length, kWidth),
      encoder(s / "encoder", kTransformerLayers, {.d_model = kWidth, .n_heads = 4, .d_ff = 52, .dropout = 0}),
      output(s / "output", kWidth, kDigits) {}

Tensor Attention::operator()(const Tensor& x) const {
  std::vector<int> rows{0};
  for (int s = 0; s < x.size(0); ++s) rows.push_back(rows.back() + x.size(1));
  const Tensor y = encoder(positions(reshape(x, {-1, kWidth}), rows), rows);
  return output(at_the_end(reshape(y, x.shape())));
}

Network::Network(const seppo::Scope& s, Kind kind, int n) : length(n), embedding(s / "embedding", kDigits, kWidth) {
  if (kind == Kind::gru) gru.emplace(s / "gru");
  if (kind == Kind::convolution) convolutions.emplace(s / "convolutions", std::vector{1, 1, 1});
  if (kind == Kind::dilated) convolutions.emplace(s / "convolutions", std::vector{1, 4, 16});
  if (kind == Kind::transformer) attention.emplace(s / "transformer", n);
}

Tensor Network::operator()(std::span<const int> digits) const {
  const Tensor x = reshape(embedding(digits), {-1, length, kWidth});
  if (gru) return (*gru)(x);
  if (convolutions) return (*convolutions)(x);
  return (*attention)(x);
}

std::optional<int> Network::path() const {
  if (gru) return length - 1;
  if (attention) return 1;
  if (convolutions->field() < length) return {};
  return static_cast<int>(convolutions->layers.size());
}

}  // namespace race
