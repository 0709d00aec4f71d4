// An op, and its naive reference for both scalar types.
#pragma once

#include "support/nd.h"

#include <seppo/autograd/core/tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace test {

using seppo::real;
using seppo::Shape;
using seppo::Tensor;
using Inputs = std::span<const Tensor>;
using Op = std::function<Tensor(Inputs)>;

template <class T>
using Arrays = std::vector<Nd<T>>;

// Wraps a generic function from Arrays<T> to Nd<T>.
struct Reference {
  template <class F>
  Reference(const F& f) : real(f), complex(f) {}
  Nd<double> operator()(const Arrays<double>& x) const { return real(x); }
  Nd<Complex> operator()(const Arrays<Complex>& x) const { return complex(x); }

  std::function<Nd<double>(const Arrays<double>&)> real;
  std::function<Nd<Complex>(const Arrays<Complex>&)> complex;
};

inline std::vector<int> sizes_of(const Shape& shape) { return {shape.sizes().begin(), shape.sizes().end()}; }

// Values converted to `real`.
template <class Numbers>
std::vector<real> reals(const Numbers& values) {
  std::vector<real> result;
  for (const auto v : values) result.push_back(static_cast<real>(v));
  return result;
}

struct OpCheckOptions {
  double low = 0, high = 0;  // inputs uniform in [low, high]; N(0, 1) when equal
  std::uint64_t seed = 1;
  double tolerance = 1e-12;    // in double precision; within(tolerance) in single precision
  bool by_differences = true;  // false for inputs near kinks
  bool in_eval_mode = true;    // also check the values in eval mode
  bool aliased = true;         // also pass one tensor as two inputs of equal shape
  std::size_t constants = 0;   // how many of the last inputs get no gradient
};

}  // namespace test
