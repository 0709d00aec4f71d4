// Kernel: a function compiled once for each instruction set (Highway), whose best version for this processor is chosen
// at run time. A header declares it:
//
//   extern Kernel<void(real* y, const real* x, std::size_t n)> negate;
//
// A source defines it in HWY_NAMESPACE under the same name and signature, and under HWY_ONCE in the namespace of the
// declaration says SEPPO_KERNEL(negate);
#pragma once

#include "real.h"

namespace seppo {
inline namespace SEPPO_ABI {

template <class Signature>
using Kernel = Signature* const;

}  // namespace SEPPO_ABI
}  // namespace seppo

#define SEPPO_KERNEL(name) \
  HWY_EXPORT(name);        \
  constinit decltype(name) name = [](auto... args) -> decltype(auto) { return HWY_DYNAMIC_DISPATCH(name)(args...); }
