// Checkpointed calls run on a tape of their own, forward and again in backward.
#include "checkpointing.h"

#include "../core/guards.h"
#include "../ops/op.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace detail {
namespace {

using Checkpointed = FunctionRef<Tensor(std::span<const Tensor>)>;

// The tape for a call nested in `depth` others on this thread; all calls at this depth reuse its memory.
thread_local std::vector<std::unique_ptr<Tape>> inner_tapes;
thread_local std::size_t depth = 0;

Tape& inner_tape(const Tape& outer, const RandomContext& random) {
  if (depth == inner_tapes.size()) inner_tapes.push_back(std::make_unique<Tape>());
  Tape& inner = *inner_tapes[depth];
  inner.clear();
  inner.use_settings_of(outer);
  inner.random = random;
  return inner;
}

// f(inputs) on the inner tape, which becomes the current one, with copies of the inputs as leaves.
struct Run {
  UseTape use;
  ScopedValue<std::size_t> deeper{depth, depth + 1};
  std::vector<Tensor> leaves;
  Tensor output;

  Run(Tape& inner, std::span<const Tensor> inputs, Checkpointed f) : use(inner) {
    for (const Tensor& x : inputs) {
      leaves.push_back(inner.share(x, x.shape()));
      leaves.back().node().requires_grad = x.requires_grad();
    }
    output = f(leaves);
  }
};

}  // namespace

Tensor checkpoint(List<Tensor> inputs, Checkpointed f) {
  Tape& outer = tape();
  const auto kept = outer.keep<Tensor>(inputs);
  const RandomContext random = outer.random;
  Tensor y;
  {
    Tape& inner = inner_tape(outer, random);
    const Run run(inner, kept, f);
    outer.random = inner.random;
    y = outer.create(run.output.shape());
    y.node().requires_grad = outer.records() && run.output.requires_grad();  // maybe only by a parameter that f uses
    std::copy_n(run.output.data(), y.numel(), y.data());
    outer.use_parameters_of(inner, y);
    inner.clear();
  }
  outer.begin_record("checkpoint", y, kept);
  if (y.requires_grad())
    outer.attach(y, [=] {
      Tape& inner = inner_tape(*y.node().tape, random);
      inner.mode = Mode::train;  // as when this was recorded, whatever the mode of backward
      inner.recording = true;
      inner.recomputes = true;
      const Run run(inner, kept, f);
      inner.backward(run.output, {grad_of(y), y.numel()});
      for (std::size_t i = 0; i < kept.size(); ++i)
        if (const real* const grad = run.leaves[i].node().grad) add_grad(kept[i], grad);
      inner.clear();
    });
  return y;
}

}  // namespace detail
}  // namespace SEPPO_ABI
}  // namespace seppo
