// Region: a named part of a computation, such as one module of a model. Its name appears in errors, "(in
// encoder.0.ffn.up)", and tells observers which module an op belongs to.
//
//   Tensor operator()(const Tensor& x) const {
//     const Region here(name);                // name: a RegionName made from the Scope's path
//     return here(linear(x, weight, bias));   // tells observers that this is the module's output
//   }
//
// Observer: sees what a tape computes, op by op, forward and backward. The tape's only hook for tools.
//
// tools/observers.h has those that find NaNs, time ops and show what modules compute; examples/small/graph.cpp is one
// to copy. Without an observer, an op pays for storing its name and for one comparison.
//
// An observer sees the tape it was set on, in the thread that uses it. An exception thrown by an observer
// propagates as if the op itself had thrown it.
#pragma once

#include "tape.h"
#include "utility.h"

#include <string>
#include <string_view>

namespace seppo::inline SEPPO_ABI {

// An interned name, kept for as long as the program runs: equal texts are one string, and copies are free.
class RegionName {
 public:
  RegionName() = default;  // the empty name
  explicit RegionName(std::string_view text);
  const std::string& text() const;
  bool empty() const { return text_ == nullptr; }

 private:
  const std::string* text_ = nullptr;
};

// The region the calling thread computes in; empty outside of any.
RegionName current_region();

// Regions nest; each has its full name, so the innermost counts. One without a name does nothing.
class Region {
 public:
  explicit Region(RegionName name);

  // The region's result, to be returned: observers of the current tape are told.
  const Tensor& operator()(const Tensor& output) const;

 private:
  RegionName name_;
  ScopedValue<RegionName> current_;
};

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

}  // namespace seppo::inline SEPPO_ABI
