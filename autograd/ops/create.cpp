// Creates tensors of given, regular and random values.
#include "../ops.h"

#include <algorithm>
#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {

Tensor full(const Shape& shape, real value) {
  Tensor y = tape().create(shape);
  std::fill_n(y.data(), y.numel(), value);
  return y;
}

Tensor tensor(const Shape& shape, List<real> values) {
  check(static_cast<std::size_t>(shape.numel()) == values.size(), "tensor: shape ", shape, " has ", shape.numel(),
        " elements, ", values.size(), " values given");
  Tensor y = tape().create(shape);
  std::copy(values.begin(), values.end(), y.data());
  return y;
}

Tensor variable(const Shape& shape, List<real> values) {
  Tensor x = tensor(shape, values);
  x.node().requires_grad = true;
  return x;
}

Tensor arange(double start, double end, double step) {
  check<ArgumentError>(std::abs(step) > 0 && std::isfinite(end - start), "arange: from ", start, " to ", end,
                       " in steps of ", step, " is no finite sequence");
  const double count = std::max(0.0, std::ceil((end - start) / step));
  check(count <= std::numeric_limits<int>::max(), "arange: ", count, " elements are more than an axis can have");
  Tensor y = tape().create({static_cast<int>(count)});
  for (std::size_t i = 0; i < y.numel(); ++i) y.data()[i] = static_cast<real>(start + static_cast<double>(i) * step);
  return y;
}

Tensor randn(const Shape& shape, RandomStream& random) {
  Tensor y = tape().create(shape);
  std::generate_n(y.data(), y.numel(), [&] { return static_cast<real>(random.normal()); });
  return y;
}

Tensor uniform(const Shape& shape, double low, double high, RandomStream& random) {
  check<ArgumentError>(low <= high, "uniform: low ", low, " is not at most high ", high);
  Tensor y = tape().create(shape);
  std::generate_n(y.data(), y.numel(), [&] { return static_cast<real>(low + (high - low) * random.uniform()); });
  return y;
}

Tensor detach(const Tensor& x) {
  const NoGrad no_grad;
  return tape().view(x, x.shape());
}

}  // namespace SEPPO_ABI
}  // namespace seppo
