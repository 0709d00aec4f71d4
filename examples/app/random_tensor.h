// Inputs for experiments: a leaf of N(0, 1).
#pragma once

#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <vector>

namespace examples {

inline seppo::Tensor random_tensor(const seppo::Shape& shape, std::uint64_t seed) {
  seppo::RandomStream random(seed, seppo::Purpose::data);
  std::vector<seppo::real> values(static_cast<std::size_t>(shape.numel()));
  for (seppo::real& v : values) v = static_cast<seppo::real>(random.normal());
  return seppo::variable(shape, values);
}

}  // namespace examples
