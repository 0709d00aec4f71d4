// Observer: sees what a tape computes, op by op, forward and backward. The tape's only hook for tools.
//
//   struct CountOps : Observer {
//     void forward(const Tensor&, std::span<const Tensor>) override { ++count; }
//     int count = 0;
//   };
//   CountOps ops;
//   {
//     const Observe scope(ops);
//     model.loss(batch);
//   }
//   std::cout << ops.count;
//
// autograd/tools has observers that find NaNs, time ops and show what modules compute; examples/small/graph.cpp is one
// to copy. Without an observer, an op pays for storing its name and for one comparison.
//
// An observer sees the tape it was set on, in the thread that uses it. An exception thrown by an observer
// propagates as if the op itself had thrown it.
#pragma once

#include "real.h"
#include "scoped_value.h"
#include "tape.h"
#include "tensor.h"

#include <span>
#include <string>
#include <type_traits>

namespace seppo {
inline namespace SEPPO_ABI {

class Observer {
 public:
  virtual ~Observer() = default;

  // An op has allocated its output and starts to compute. Its name is not known yet.
  virtual void created(const Tensor& /*output*/) {}
  // An op has computed `output`; output.node() has the op's name and region. In every mode.
  virtual void forward(const Tensor& /*output*/, std::span<const Tensor> /*inputs*/) {}
  // Backward of the op that made `output` begins, with grad_of(output), and has ended.
  virtual void backward_begins(const Tensor& /*output*/) {}
  virtual void backward(const Tensor& /*output*/) {}
  // Should attention compute its weights to show them to this observer? They are [sequences, heads, max queries, max
  // keys], row-major, before dropout, and zero beyond a sequence's own queries and keys.
  virtual bool wants_attention_weights() const { return false; }
  virtual void attention_weights(const Shape& /*shape*/, std::span<const real> /*weights*/) {}
  // A module, or other region, is about to return `output`.
  virtual void region_output(const std::string& /*region*/, const Tensor& /*output*/) {}
};

// The observers of a tape: a list, linked by the Observe scopes.
struct ObserverLink {
  Observer& observer;
  ObserverLink* next;
};

// Shows an observer what the current tape does, for a scope. Several may be nested: all see it.
class Observe {
 public:
  explicit Observe(Observer& observer) : link_{observer, tape().observers()}, first_(tape().observers(), &link_) {}

 private:
  ObserverLink link_;
  ScopedValue<ObserverLink*> first_;
};

// Calls one function of each observer of a tape.
template <class... Args>
void notify(Tape& tape, void (Observer::*event)(Args...), std::type_identity_t<Args>... args) {
  for (const ObserverLink* link = tape.observers(); link; link = link->next) (link->observer.*event)(args...);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
