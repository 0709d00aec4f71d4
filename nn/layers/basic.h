// The modules of an op or two: Linear, FeedForward, Embedding, LayerNorm, BatchNorm and Dropout.
#pragma once

#include "../../autograd/core/region.h"
#include "../../autograd/ops.h"
#include "../parameters.h"

#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

struct LinearOptions {
  bool bias = true;                   // starts at zero
  Init init = init_xavier_uniform();  // of the weight (PyTorch draws U(-c, c) with c = 1 / sqrt(in))
};

// y = x W^T + b
struct Linear {
  // weight [out, in], as in PyTorch; bias [out].
  Linear(const Scope& s, int in, int out, const LinearOptions& options = {})
      : weight(s.parameter("weight", {out, in}, options.init)),
        bias(options.bias ? s.parameter("bias", {out}, init_zeros()) : Tensor()),
        name(s.region()) {}

  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {  // [..., in] -> [..., out]
    const Region here(name);
    return here(linear(x, weight, bias, activation));
  }

  Tensor weight, bias;  // without a bias, that is undefined
  RegionName name;
};

struct FeedForwardOptions {
  Activation activation = Activation::relu;
  bool bias = true;
};

// Two linear maps with an activation between them, applied to each position (Vaswani et al. 2017, 3.3). The gated
// forms are down(silu(gate(x)) up(x)) for swiglu, with gelu for geglu (Shazeer 2020).
struct FeedForward {
  FeedForward(const Scope& s, int d_model, int d_ff, const FeedForwardOptions& options = {})
      : gate(options.activation >= Activation::swiglu
                 ? std::optional<Linear>(std::in_place, s / "gate", d_model, d_ff, LinearOptions{.bias = options.bias})
                 : std::nullopt),
        up(s / "up", d_model, d_ff, {.bias = options.bias}),
        down(s / "down", d_ff, d_model, {.bias = options.bias}),
        activation(options.activation),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [rows, d_model]
    const Region here(name);
    if (gate) return here(down((activation == Activation::swiglu ? silu((*gate)(x)) : gelu((*gate)(x))) * up(x)));
    return here(down(up(x, activation)));
  }

  std::optional<Linear> gate;  // only in the gated forms
  Linear up, down;
  Activation activation;
  RegionName name;
};

// A table of vectors looked up by token id.
struct Embedding {
  Embedding(const Scope& s, int vocabulary, int d_model, const Init& init = init_normal(1))
      : weight(s.parameter("weight", {vocabulary, d_model}, init)), name(s.region()) {}

  Tensor operator()(List<int> ids, const EmbeddingOptions& options = {}) const {  // -> [ids, d_model]
    const Region here(name);
    return here(embedding(weight, ids, options));
  }

  // The table as an output layer, x W^T: [rows, d_model] -> [rows, vocabulary] (Press and Wolf 2017).
  Tensor as_linear(const Tensor& x) const {
    const Region here(name);
    return here(linear(x, weight));
  }

  Tensor weight;  // [vocabulary, d_model]
  RegionName name;
};

enum class NormKind { layer, rms };

struct LayerNormOptions {
  double eps = 1e-5;  // added to the variance, or to the mean square
  bool bias = true;   // for the kind `layer`
  NormKind kind = NormKind::layer;
};

// Normalises each row to mean 0 and variance 1, then applies a learned gain and bias (Ba, Kiros and Hinton 2016); or,
// as RMSNorm does, divides it by its root mean square and applies a gain (Zhang and Sennrich 2019).
struct LayerNorm {
  LayerNorm(const Scope& s, int size, const LayerNormOptions& options = {})
      : weight(s.parameter("weight", {size}, init_ones())),
        bias(options.bias && options.kind == NormKind::layer ? s.parameter("bias", {size}, init_zeros()) : Tensor()),
        eps(options.eps),
        kind(options.kind),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [..., size]
    const Region here(name);
    return here(kind == NormKind::rms ? rms_norm(x, weight, eps) : layer_norm(x, weight, bias, eps));
  }

  Tensor weight, bias;  // [size]; the bias may be empty
  double eps;
  NormKind kind;
  RegionName name;
};

// Normalises each column to mean 0 and variance 1 over the batch, then applies a learned gain and bias (Ioffe and
// Szegedy 2015). Eval mode uses the running mean and variance, buffers that are saved with the parameters.
struct BatchNorm {
  BatchNorm(const Scope& s, int size, const BatchNormOptions& o = {})
      : weight(s.parameter("weight", {size}, init_ones())),
        bias(s.parameter("bias", {size}, init_zeros())),
        running_mean(s.buffer("running_mean", {size}, init_zeros())),
        running_var(s.buffer("running_var", {size}, init_ones())),
        options(o),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [..., size]
    const Region here(name);
    return here(batch_norm(x, weight, bias, running_mean, running_var, options));
  }

  Tensor weight, bias, running_mean, running_var;
  BatchNormOptions options;
  RegionName name;
};

// Active in Mode::train, the identity in Mode::eval.
struct Dropout {
  explicit Dropout(double probability) : p(probability) {
    check<ArgumentError>(p >= 0 && p <= 1, "dropout: p = ", p, " is not in [0, 1]");
  }

  Tensor operator()(const Tensor& x) const { return dropout(x, p); }

  double p;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
