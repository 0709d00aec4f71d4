#include "checkpointing.h"
#include "../kernels/kernels.h"

#include <algorithm>
#include <vector>

namespace seppo::inline SEPPO_ABI::detail {
namespace {

// f(inputs) on the inner tape, which becomes the current one: on copies that are leaves there.
struct Run {
  UseTape use;
  std::vector<Tensor> leaves;
  Tensor output;

  Run(Tape& inner, std::span<const Tensor> inputs, CheckpointedCall call, const void* f) : use(inner) {
    for (const Tensor& x : inputs) {
      leaves.push_back(inner.create_external(x.shape(), x.data()));
      leaves.back().node().requires_grad = x.requires_grad();
    }
    output = call(f, leaves);
  }
};

}  // namespace

Tensor checkpoint(std::span<const Tensor> inputs, CheckpointedCall call, const void* f) {
  Tape& outer = tape();
  const auto kept = outer.keep(inputs);
  const RandomContext random = outer.random;
  Tensor y;
  bool wants_gradient = false;
  {
    Tape& inner = outer.inner();
    inner.random = random;
    const Run run(inner, kept, call, f);
    outer.random = inner.random;
    wants_gradient = run.output.requires_grad();
    y = outer.create(run.output.shape());
    std::copy_n(run.output.data(), y.numel(), y.data());
    inner.clear();
  }
  outer.notes("checkpoint", y, kept);
  if (wants_gradient)  // of an input, or of a parameter that f uses
    outer.attach(y, [=] {
      Tape& own = *y.node().tape;
      Tape& inner = own.inner();
      inner.mode = Mode::train;  // as it was when this was recorded, wherever backward is called
      inner.recording = true;
      inner.random = random;
      const Run run(inner, kept, call, f);
      inner.backward(run.output, {grad_of(y), y.numel()});
      for (std::size_t i = 0; i < kept.size(); ++i)
        if (kept[i].requires_grad()) {
          const auto [dx, beta] = grad_target(kept[i]);
          kernels::axpy(dx, beta, run.leaves[i].grad().data(), 1, kept[i].numel());
        }
      inner.clear();
    });
  return y;
}

}  // namespace seppo::inline SEPPO_ABI::detail
