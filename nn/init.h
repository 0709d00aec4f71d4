// Initialisers: how a parameter's initial values are drawn.
//
//   const Linear up(s / "up", 32, 64, {.init = init_normal(0.02)});              // one weight
//   const Transformer model(parameters.root().with(Initialisation::pytorch), 50, 50, config);  // a whole model
#pragma once

#include "../autograd/core/function_ref.h"
#include "../autograd/core/random.h"
#include "../autograd/core/tape.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// Fills the values of a parameter of this shape from its own random stream.
using Init = std::function<void(std::span<real> values, const Shape& shape, RandomStream& random)>;

inline Init init_constant(double value) {
  return [=](std::span<real> values, const Shape&, RandomStream&) {
    std::fill(values.begin(), values.end(), static_cast<real>(value));
  };
}
inline Init init_zeros() { return init_constant(0); }
inline Init init_ones() { return init_constant(1); }

// Threads share the work: fill(piece, random) is called for pieces of the values, with the stream as it is where the
// piece begins if each value takes one number of uniform() or normal(). The values do not depend on the threads.
void draw_in_pieces(std::span<real> values, RandomStream& random,
                    FunctionRef<void(std::span<real> piece, RandomStream& random)> fill);

// N(0, deviation^2)
inline Init init_normal(double deviation) {
  return [=](std::span<real> values, const Shape&, RandomStream& random) {
    draw_in_pieces(values, random, [=](std::span<real> piece, RandomStream& own) {
      for (real& v : piece) v = static_cast<real>(deviation * own.normal());
    });
  };
}

inline Init init_uniform(double bound) {
  return [=](std::span<real> values, const Shape&, RandomStream& random) {
    draw_in_pieces(values, random, [=](std::span<real> piece, RandomStream& own) {
      for (real& v : piece) v = static_cast<real>(bound * (2 * own.uniform() - 1));
    });
  };
}

// U(-c, c) with c = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010). The fans of a weight
// [out, in] are in and out / stacked, where `stacked` is the number of matrices stacked in it.
inline Init init_xavier_uniform(double gain = 1, int stacked = 1) {
  return [=](std::span<real> values, const Shape& shape, RandomStream& random) {
    const double fans = shape.cols() + static_cast<double>(shape.rows()) / stacked;
    init_uniform(gain * std::sqrt(6 / fans))(values, shape, random);
  };
}

// U(-c, c) with c = sqrt(6 / fan_in), for layers followed by ReLU (He et al. 2015).
inline Init init_kaiming_uniform() {
  return [](std::span<real> values, const Shape& shape, RandomStream& random) {
    init_uniform(std::sqrt(6.0 / shape.cols()))(values, shape, random);
  };
}

// What modules draw where their options do not say it; Scope::with chooses. An initialiser that is given explicitly, by
// an option or by a model such as LanguageModel (GPT-2's N(0, 0.02^2) for embeddings), holds either way.
enum class Initialisation {
  seppo,   // weights of Linear, and each projection of attention, init_xavier_uniform(); all biases 0
  pytorch  // what the modules of torch.nn draw, see the table
};
//                                    seppo                             pytorch
//   Linear, weight [out, in]         U(-a, a), a^2 = 6 / (in + out)    U(-b, b), b = 1 / sqrt(in)
//   Linear, bias                     0                                 U(-b, b)
//   attention, in_proj [3 d, d]      each third as a Linear's          U(-c, c), c^2 = 6 / (d + 3 d): as one matrix
//   attention, k_proj and v_proj     as a Linear's                     U(-a, a)
//   attention, out_proj              as a Linear's                     U(-b, b)
//   attention, biases                0                                 0
//   Embedding                        N(0, 1)                           N(0, 1)
//   LayerNorm and BatchNorm          weight 1, bias 0                  weight 1, bias 0
//
// A convolution written as a Linear of unfold() has the b of nn.Conv2d, since its `in` is channels times kernel. What
// nn.Transformer, and it alone, does besides is to draw all its matrices again, from U(-a, a).

// U(-b, b) with b = 1 / sqrt(fan_in), of a weight [out, in]: what PyTorch calls kaiming_uniform_ with a = sqrt(5).
inline Init init_torch_linear() {
  return [](std::span<real> values, const Shape& shape, RandomStream& random) {
    init_uniform(1 / std::sqrt(static_cast<double>(shape.cols())))(values, shape, random);
  };
}

}  // namespace SEPPO_ABI
}  // namespace seppo
