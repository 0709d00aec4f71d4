// What changes a tape for a scope: NoGrad, Inference, UseMode, UseTape, TapeMark and NoBackward; and result_of().
//
//   {
//     const Inference inference;  // no dropout, no gradients
//     ids = argmax(model.logits(src, tgt));
//   }                             // the tensors made within are forgotten
#pragma once

#include "scoped_value.h"
#include "tape.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {

// Makes `tape` the thread's current tape for a scope.
class UseTape {
 public:
  explicit UseTape(Tape& tape) : chosen_(Tape::chosen(), &tape) {}

 private:
  ScopedValue<Tape*> chosen_;
};

// While one is in scope, backward throws StateError in this thread, on any tape: in a loss whose backward pass
// DataParallel runs itself.
class NoBackward {
 public:
  NoBackward() : forbidden_(is_in_scope(), true) {}

 private:
  friend class Tape;
  static bool& is_in_scope() {
    static thread_local bool is_forbidden = false;
    return is_forbidden;
  }
  ScopedValue<bool> forbidden_;
};

// Sets the current tape's mode for a scope: UseMode eval(Mode::eval);
class UseMode {
 public:
  explicit UseMode(Mode mode) : mode_(tape().mode, mode) {}

 private:
  ScopedValue<Mode> mode_;
};

// Computes without recording for a scope: nothing in it carries a gradient. Dropout follows the mode.
class NoGrad {
  ScopedValue<bool> recording_{tape().recording, false};
};

// Forgets at the end of the scope every tensor made inside it: long evaluations in little memory. Gradients
// that backward has brought to older tensors stay, and then so does the memory, until clear().
class TapeMark {
 public:
  TapeMark() = default;
  ~TapeMark() { tape_.rewind(start_); }
  TapeMark(const TapeMark&) = delete;

 private:
  Tape& tape_ = tape();
  Tape::Position start_ = tape_.position();
};

// The result of f(), which has this shape. Where nothing is recorded and no observer looks on, every other tensor that
// f makes is forgotten: a deep network is evaluated in the memory of one of its layers.
template <class F>
Tensor result_of(const Shape& shape, const F& f) {
  Tape& t = tape();
  if (t.records() || t.observers()) return f();
  const Tensor kept = t.create(shape);
  const TapeMark mark;
  const Tensor made = f();
  check(made.shape() == shape, "result_of: ", made, " does not have the shape ", shape);
  std::ranges::copy(made.values(), kept.data());
  return kept;
}

// For prediction: evaluates, without recording and without dropout, and forgets at the end of the scope every tensor
// made inside it. What must outlive it is copied out: { const Inference inference; ids = argmax(model(x)); }
class Inference {
  UseMode mode_{Mode::eval};
  TapeMark mark_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
