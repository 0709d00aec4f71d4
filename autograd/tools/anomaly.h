// FindAnomaly: names the first op that makes a value or a gradient that is not finite.
//
//   FindAnomaly finder;
//   const Observe scope(finder);
//   backward(model.loss(batch));
//   // NumericError: log: forward made -inf at [1,3] of [8,16], from finite inputs (in encoder.0.ffn)
//
// Every value is read once more, so use it to repeat a step that failed: random numbers are a function of
// the step (random.h), so the step repeats exactly. Intended infinities, such as log(0), are reported as well.
#pragma once

#include "../core/observer.h"

#include <span>
#include <unordered_map>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class FindAnomaly : public Observer {
 public:
  // Both throw NumericError.
  void forward(const Tensor& output, std::span<const Tensor> inputs) override;
  void backward(const Tensor& output) override;

 private:
  std::unordered_map<const Node*, std::vector<Tensor>> inputs_;  // of each op, to look at their gradients
};

}  // namespace SEPPO_ABI
}  // namespace seppo
