// What an optimiser is made of. It has a constructor that takes the parameters and groups; step(lr, gradient_scale),
// which moves the values by the gradients times that scale, as clipping and means require, and zeroes the gradients;
// and state(), its memory of earlier steps. Values and gradients are flat blocks, in which TrainedRuns finds what is
// trained. Momentum, complete:
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
//     std::vector<OptimizerBlock> state() { return {{"optimiser.velocity", velocity_}}; }
//
//    private:
//     Parameters* parameters_;
//     TrainedRuns runs_;
//     std::vector<real> velocity_;
//   };
//
// A Trainer takes any such class in place of its Adam, and saves the state; in a loop of your own, save_checkpoint and
// load_checkpoint (nn/io/checkpoint.h) take it.
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../parameters.h"
#include "parameter_groups.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Optimiser state: a block with the layout of the parameters' values, saved as "PREFIX.NAME" for each parameter, unless
// it is frozen and the state zero. Prefixes begin with "optimiser." or, of the library's Adam, with "adam."; tensors
// whose names do are not parameters of the model.
struct OptimizerBlock {
  std::string prefix;
  std::span<real> values;
};

// Whether a tensor of this name in a checkpoint is optimiser state.
inline bool is_optimizer_state(std::string_view name) {
  return name.starts_with("adam.") || name.starts_with("optimiser.");
}

// A class that is an optimiser. Spans of its state stay valid as long as it lives.
template <class T>
concept Optimiser = requires(T& optimiser, double number) {
  optimiser.step(number, number);
  { optimiser.state() } -> std::convertible_to<std::vector<OptimizerBlock>>;
};

// An optimiser whose formula depends on how many steps it has taken, as Adam's does.
template <class T>
concept CountsSteps = requires(T& optimiser, std::int64_t steps) {
  { optimiser.steps() } -> std::convertible_to<std::int64_t>;
  optimiser.set_steps(steps);
};

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
