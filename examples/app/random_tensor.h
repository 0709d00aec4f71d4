// Inputs for experiments: leaf tensors drawn from N(0, 1).
#pragma once

#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

namespace examples {

inline seppo::Tensor random_tensor(const seppo::Shape& shape, std::uint64_t seed) {
  seppo::RandomStream random(seed, seppo::Purpose::data);
  return seppo::variable(shape, seppo::randn(shape, random).values());
}

}  // namespace examples
