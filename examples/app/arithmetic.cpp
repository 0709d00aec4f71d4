// Compiled for the same Highway targets as the library, which uses the best one that the processor supports.
#include "app/arithmetic.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/io/digest.h>

#include <fmt/format.h>
#include <hwy/highway.h>

#include <cstdint>
#include <vector>

namespace examples {

std::string instructions() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS & ~(HWY_SCALAR | HWY_EMU128);
  return targets == 0 ? "no SIMD" : hwy::TargetName(targets & -targets);  // the lowest bit is the best
}

std::string arithmetic() {
  using namespace seppo;
  const Inference guard;
  RandomStream random(1, Purpose::test);
  const auto drawn = [&](int rows, int columns) {
    std::vector<real> values(static_cast<std::size_t>(rows * columns));
    for (real& value : values) value = static_cast<real>(random.uniform() - 0.5);
    return variable({rows, columns}, values);
  };
  Digest digest;
  struct Sizes {
    int rows, inner, columns;
  };
  // Each way in which engine.cpp computes a product. The last is for OpenBLAS on every processor, as it has too few
  // columns for another.
  for (const Sizes size : {Sizes{2, 256, 256}, {32, 256, 256}, {128, 256, 256}, {256, 1100, 1100}, {65, 22000, 48}}) {
    const Tensor y = softmax(gelu(matmul(drawn(size.rows, size.inner), drawn(size.inner, size.columns))));
    digest.add(y.values().data(), y.values().size_bytes());
  }
  return fmt::format("{} (a sample gives {})", instructions(), digest.hex());
}

}  // namespace examples
