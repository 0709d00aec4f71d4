// Activation checkpointing: less memory for more time (Chen et al. 2016).
//
// checkpoint(inputs, f) returns f(inputs) but keeps no intermediate values of f: backward recomputes them. All
// checkpointed parts reuse the same memory.
//
//   x = checkpoint({x}, [&](std::span<const Tensor> in) { return layer(in[0], rows); });
//
// `f` takes a std::span<const Tensor> and returns a Tensor. It is kept, as it is, until clear(): it may
// capture references, numbers and parameters, and what it refers to must live until backward has passed. Other
// tensors of the tape must be given as inputs: captured ones are refused with StateError. Dropout masks
// are the same both times, and running statistics move once.
#pragma once

#include "../core/function_ref.h"
#include "../core/list.h"
#include "../core/tape.h"

namespace seppo {
inline namespace SEPPO_ABI {

namespace detail {
Tensor checkpoint(List<Tensor> inputs, FunctionRef<Tensor(std::span<const Tensor>)> kept);
}  // namespace detail

template <class F>
Tensor checkpoint(List<Tensor> inputs, const F& f) {
  static_assert(std::is_trivially_copyable_v<F>, "f may capture references, handles, pointers and numbers only");
  return detail::checkpoint(inputs, tape().keep(std::span<const F>(&f, 1))[0]);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
