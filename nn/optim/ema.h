// Ema: averages of the parameters, kept beside them.
#pragma once

#include "../../autograd/core/memory.h"
#include "optimiser.h"

#include <cstdint>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// An exponential moving average of the trained values, often better than the last ones (Polyak and Juditsky 1992;
// Tarvainen and Valpola 2017). Its bias towards the start is corrected as for Adam's moments (Kingma and Ba 2015, 3):
// after t updates it is sum_i decay^(t - i) p_i / sum_i decay^(t - i), so at first p_1. Unfrozen later, it starts at 0.
class Ema {
 public:
  // Throws ArgumentError unless decay is in [0, 1).
  explicit Ema(Parameters& parameters, double decay = 0.999);

  void update();  // after each step
  // Exchanges averages and parameters, to evaluate or save; a second call undoes it. Without updates it does nothing.
  void swap();

  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }
  // Laid out as the parameters' values.
  std::span<real> averages() const { return {averages_.as<real>(), averages_.size() / sizeof(real)}; }

 private:
  Parameters* parameters_;
  TrainedRuns runs_;
  double decay_;
  std::int64_t updates_ = 0;
  Memory averages_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
