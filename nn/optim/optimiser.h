// What an optimiser is made of. It has a constructor that takes the parameters and groups, and step(lr,
// gradient_scale), which moves the values by the gradients times that scale, as clipping and means require, and zeroes
// the gradients. Values and gradients are flat blocks, in which TrainedRuns finds what is trained. Momentum, complete:
//
//   class Momentum {
//    public:
//     explicit Momentum(Parameters& parameters, const ParameterGroups& groups = {})
//         : parameters_(&parameters), runs_(parameters, 0, groups), velocity_(parameters.values().size()) {}
//
//     void step(double lr, double gradient_scale = 1) {
//       const std::span<real> values = parameters_->edit(), gradients = parameters_->gradients();
//       const auto scale = static_cast<real>(gradient_scale);
//       runs_.for_each([&](const TrainedRun& run) {  // on all threads
//         const auto rate = static_cast<real>(lr * run.lr);
//         for (std::size_t i = run.begin; i < run.end; ++i) {
//           velocity_[i] = real(0.9) * velocity_[i] + scale * gradients[i];
//           values[i] -= rate * velocity_[i];
//           gradients[i] = 0;
//         }
//       });
//     }
//
//     std::span<real> velocity() { return velocity_; }  // the state, to be saved with the parameters
//
//    private:
//     Parameters* parameters_;
//     TrainedRuns runs_;
//     std::vector<real> velocity_;
//   };
//
// save_checkpoint and load_checkpoint (nn/io/checkpoint.h) take such state by name: {{"momentum.velocity",
// velocity()}}.
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../parameters.h"
#include "parameter_groups.h"

#include <cstddef>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// A run of the flat blocks whose parameters share their options.
struct TrainedRun {
  std::size_t begin, end;
  double lr;            // factor of the step's learning rate
  double weight_decay;  // 0 for parameters without
};

// What an optimiser updates: everything but buffers and frozen parameters.
class TrainedRuns {
 public:
  // `weight_decay` is that of parameters with decay, where no group says otherwise. Throws ArgumentError for a group
  // that matches no parameter, or whose numbers are negative or not finite.
  TrainedRuns(const Parameters& parameters, double weight_decay, const ParameterGroups& groups);

  // Calls f, on all threads, for pieces that together are everything that is trained now. Throws StateError if
  // parameters were added.
  void for_each(FunctionRef<void(const TrainedRun& piece)> f);

 private:
  TrainedRun run_of(const Parameters::Entry& entry) const;
  void find_runs();

  const Parameters* parameters_;
  double weight_decay_;
  ParameterGroups groups_;
  std::size_t size_;
  std::vector<TrainedRun> runs_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
