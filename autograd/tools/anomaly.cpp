// Looks at each value and gradient, and says where the first is that is not finite.
#include "anomaly.h"

#include "../core/check.h"
#include "../core/compact_matrix.h"
#include "../core/gradient.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The first element that is not finite; the number of elements if all are.
std::size_t first_anomaly(std::span<const real> values) {
  const auto found = std::ranges::find_if(values, [](real v) { return !std::isfinite(v); });
  return static_cast<std::size_t>(found - values.begin());
}

// Compact weights were finite when they were made, and have no values to look at.
bool is_finite(const Tensor& x) { return rows_of_compact(x) || first_anomaly(x.values()) == x.numel(); }

std::string position(std::size_t element, const Shape& shape) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const auto size = static_cast<std::size_t>(shape[axis]);
    text = std::to_string(element % size) + (text.empty() ? "" : ",") + text;
    element /= size;
  }
  return "[" + text + "]";
}

const char* describe(real value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "inf" : "-inf";
}

std::string place(const Tensor& output) {
  const std::string* region = output.node().region;
  return region ? " (in " + *region + ")" : "";
}

}  // namespace

void FindAnomaly::forward(const Tensor& output, std::span<const Tensor> inputs) {
  inputs_[&output.node()].assign(inputs.begin(), inputs.end());
  if (is_finite(output)) return;
  const std::size_t at = first_anomaly(output.values());
  throw NumericError(concat_text(output.node().op, ": forward made ", describe(output.values()[at]), " at ",
                                 position(at, output.shape()), " of ", output,
                                 std::ranges::all_of(inputs, is_finite) ? ", from finite inputs" : "", place(output)));
}

void FindAnomaly::backward(const Tensor& output) {
  const auto found = inputs_.find(&output.node());
  if (found == inputs_.end()) return;
  for (std::size_t i = 0; i < found->second.size(); ++i) {
    const Tensor& x = found->second[i];
    if (!x.requires_grad()) continue;
    const std::span<const real> gradient{grad_of(x), x.numel()};
    if (const std::size_t at = first_anomaly(gradient); at < x.numel())
      throw NumericError(concat_text(output.node().op, ": backward made ", describe(gradient[at]),
                                     " in the gradient of input ", i, " ", x, " at ", position(at, x.shape()),
                                     place(output)));
  }
}

}  // namespace SEPPO_ABI
}  // namespace seppo
