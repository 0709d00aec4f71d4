// Observer: sees what a tape computes, op by op, forward and backward.
//
// Made for tools: finding NaNs (anomaly.h), profiles and graphs (profile.h, graph.h), probes (below).
// Without an observer an op pays for storing its name, and for finding that there is none.
//
//   Probe probe([&](const std::string& module, const Tensor& y) {
//     if (module == "encoder.0.ffn") seen = y.retain_grad();     // readable until tape().clear()
//   });
//   const Observe scope(probe);
//   tape().backward(model.loss(batch));
//   seen.values(), seen.grad()
//
// An observer sees the tape it was set on, in the thread that uses it. One that throws ends the op, or
// backward, it was told of, as if that had thrown.
#pragma once

#include "tape.h"

#include <functional>
#include <string>

namespace seppo::inline SEPPO_ABI {

class Observer {
 public:
  virtual ~Observer() = default;

  // A tensor was made: an op begins. Its name is not known yet.
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
  explicit Observe(Observer& observer) : tape_(tape()), link_{observer, tape_.observers()} {
    tape_.set_observers(&link_);
  }
  ~Observe() { tape_.set_observers(link_.next); }
  Observe(const Observe&) = delete;
  Observe& operator=(const Observe&) = delete;

 private:
  Tape& tape_;
  ObserverLink link_;
};

// Calls a function with the output of every module.
class Probe : public Observer {
 public:
  using Function = std::function<void(const std::string& module, const Tensor& output)>;
  explicit Probe(Function function) : function_(std::move(function)) {}
  void region_output(const std::string& region, const Tensor& output) override { function_(region, output); }

 private:
  Function function_;
};

}  // namespace seppo::inline SEPPO_ABI
