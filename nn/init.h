// Initialisers: how a parameter's initial values are drawn.
#pragma once

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

// N(0, deviation^2)
inline Init init_normal(double deviation) {
  return [=](std::span<real> values, const Shape&, RandomStream& random) {
    for (real& v : values) v = static_cast<real>(deviation * random.normal());
  };
}

inline Init init_uniform(double bound) {
  return [=](std::span<real> values, const Shape&, RandomStream& random) {
    for (real& v : values) v = static_cast<real>(bound * (2 * random.uniform() - 1));
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

}  // namespace SEPPO_ABI
}  // namespace seppo
