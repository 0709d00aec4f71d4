// Functions of two arrays, element by element, along one run of a broadcast: formula and derivatives side by side.
// Plain loops: with the steps known, the compiler vectorises them for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/binary.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// forward: y = f(a, b). backward_a and backward_b: dy df/da and dy df/db.

struct Add {
  static real forward(real a, real b) { return a + b; }
  static real backward_a(real dy, real, real) { return dy; }
  static real backward_b(real dy, real, real) { return dy; }
};

struct Sub {
  static real forward(real a, real b) { return a - b; }
  static real backward_a(real dy, real, real) { return dy; }
  static real backward_b(real dy, real, real) { return -dy; }
};

struct Mul {
  static real forward(real a, real b) { return a * b; }
  static real backward_a(real dy, real, real b) { return dy * b; }
  static real backward_b(real dy, real a, real) { return dy * a; }
};

struct Div {
  static real forward(real a, real b) { return a / b; }
  static real backward_a(real dy, real, real b) { return dy / b; }
  static real backward_b(real dy, real a, real b) { return -dy * a / (b * b); }
};

template <class Op, std::size_t kStepA, std::size_t kStepB>
HWY_INLINE void forward_steps(std::size_t n, real* y, const real* a, const real* b) {
  for (std::size_t i = 0; i < n; ++i) y[i] = Op::forward(a[i * kStepA], b[i * kStepB]);
}

template <class Op>
void forward(BinaryRun run, real* y, const real* a, const real* b) {
  if (run.step_a && run.step_b) return forward_steps<Op, 1, 1>(run.n, y, a, b);
  if (run.step_a) return forward_steps<Op, 1, 0>(run.n, y, a, b);
  if (run.step_b) return forward_steps<Op, 0, 1>(run.n, y, a, b);
  forward_steps<Op, 0, 0>(run.n, y, a, b);
}

// d += f(i), element by element, or their sum where the operand repeats
template <class F>
HWY_INLINE void add_run(real* d, std::size_t step, std::size_t n, const F& f) {
  if (!d) return;
  if (step) {
    for (std::size_t i = 0; i < n; ++i) d[i] += f(i);
  } else {
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) total += double{f(i)};
    *d += static_cast<real>(total);
  }
}

template <class Op>
void backward(BinaryRun run, real* da, real* db, const real* dy, const real* a, const real* b) {
  const std::size_t sa = run.step_a, sb = run.step_b;
  add_run(da, sa, run.n, [&](std::size_t i) HWY_ATTR { return Op::backward_a(dy[i], a[i * sa], b[i * sb]); });
  add_run(db, sb, run.n, [&](std::size_t i) HWY_ATTR { return Op::backward_b(dy[i], a[i * sa], b[i * sb]); });
}

template <class Op>
constexpr kernels::Binary kBinary{forward<Op>, backward<Op>};

const BinaryTable& table() {
  static constexpr BinaryTable table{
      .add = kBinary<Add>, .sub = kBinary<Sub>, .mul = kBinary<Mul>, .div = kBinary<Div>};
  return table;
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(table);
const BinaryTable& binary() {
  static const BinaryTable& chosen = HWY_DYNAMIC_DISPATCH(table)();
  return chosen;
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
