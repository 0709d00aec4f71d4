// Making tensors.
#include "../ops.h"

#include <algorithm>

namespace seppo::inline SEPPO_ABI {

Tensor zeros(const Shape& shape) { return full(shape, 0); }
Tensor ones(const Shape& shape) { return full(shape, 1); }

Tensor full(const Shape& shape, real value) {
  Tensor y = tape().create(shape);
  std::fill_n(y.data(), y.numel(), value);
  return y;
}

Tensor tensor(const Shape& shape, std::span<const real> values) {
  check(static_cast<std::size_t>(shape.numel()) == values.size(), "tensor: shape ", shape, " has ", shape.numel(),
        " elements, ", values.size(), " values given");
  Tensor y = tape().create(shape);
  std::copy(values.begin(), values.end(), y.data());
  return y;
}

Tensor tensor(const Shape& shape, std::initializer_list<real> values) {
  return tensor(shape, std::span<const real>(values.begin(), values.size()));
}

Tensor variable(const Shape& shape, std::span<const real> values) {
  Tensor x = tensor(shape, values);
  x.node().requires_grad = true;
  return x;
}

Tensor variable(const Shape& shape, std::initializer_list<real> values) {
  return variable(shape, std::span<const real>(values.begin(), values.size()));
}

Tensor detach(const Tensor& x) {
  const NoGrad no_grad;
  return tape().view(x, x.shape());
}

}  // namespace seppo::inline SEPPO_ABI
