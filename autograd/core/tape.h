// Tape: records what was computed, so that backward() can walk it in reverse.
//
// Eager and define-by-run. An op computes its output at once and records one closure for its
// gradient. Creation order is a topological order, so backward is a reverse loop: no search, no
// recursion, and a chain of a million nodes is an ordinary case (Linnainmaa 1970; Wengert 1964).
//
//   Tape& t = tape();                       // the calling thread's current tape
//   t.clear();                              // forget the last step; its tensors die
//   Tensor loss = model.loss(batch);        // ops record themselves
//   t.backward(loss);                       // gradients of leaves are added up
//
// A tape belongs to one thread. Handles of another tape are refused with StateError.
#pragma once

#include "memory.h"
#include "random.h"
#include "tensor.h"
#include "utility.h"

#include <concepts>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

namespace seppo::inline SEPPO_ABI {

class Observer;
// The observers of a tape: a list, linked by the Observe scopes (observer.h).
struct ObserverLink {
  Observer& observer;
  ObserverLink* next;
};

enum class Mode {
  train,  // record; dropout is active
  eval    // record nothing; dropout is the identity
};

class Tape {
 public:
  Tape() = default;
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Mode mode = Mode::train;
  bool recording = true;  // false: compute only, as within NoGrad; dropout follows the mode
  RandomContext random;   // keys the dropout masks of this step
  bool records() const { return mode == Mode::train && recording; }

  // Forgets every tensor and closure; memory is kept for the next step.
  void clear();

  // Adds d(loss)/d(leaf) to the gradient of every leaf. `loss` has one element.
  // Throws ShapeError otherwise, StateError if nothing was recorded for it. The graph stays until clear(),
  // so backward may be called again, for this or another output; gradients add up. If an op throws,
  // leaves keep what has reached them. There are no second derivatives: an op that would be
  // recorded during backward throws StateError, and so does an op whose parameters have changed since.
  void backward(const Tensor& loss);
  // The same for any shape: adds the product of the cotangent with the Jacobian of `output`.
  void backward(const Tensor& output, std::span<const real> cotangent);

  // A tensor without history. `external` values are not copied and must outlive it.
  Tensor create(const Shape& shape);  // uninitialised
  Tensor create_external(const Shape& shape, real* values);
  // Shares the values (and gradient) of `base` from element `offset` on.
  Tensor view(const Tensor& base, const Shape& shape, std::ptrdiff_t offset = 0);

  // Records that the op of this name (a literal) computed `output` from `inputs`, and how the gradient comes
  // back; see record() below.
  template <class F>
  void record(const char* op, const Tensor& output, std::span<const Tensor> inputs, const F& backward) {
    if (begin_record(op, output, inputs)) attach(output, backward);
  }
  // record() in two steps: begin_record() notifies observers and returns whether any input requires a gradient.
  bool begin_record(const char* op, const Tensor& output, std::span<const Tensor> inputs);
  template <class F>
  void attach(const Tensor& output, const F& backward);

  // For an op that ran others on a tape of its own: it depends on the parameters that these used.
  void use_parameters_of(const Tape& inner, const Tensor& output);

  // Memory that lives until clear(): what a closure refers to by pointer.
  template <class T>
  T* allocate(std::size_t count) {
    return static_cast<T*>(arena_.allocate(count * sizeof(T)));
  }
  template <class T>
  std::span<const T> keep(std::span<const T> values) {
    T* copy = allocate<T>(values.size());
    std::uninitialized_copy(values.begin(), values.end(), copy);
    return {copy, values.size()};
  }

  // While set, leaf gradients that live in `home` go to the same place in `target` instead: each shard
  // of a batch has a gradient block of its own.
  void redirect_gradients(std::span<real> home, real* target) { redirect_ = {home, target}; }
  real* leaf_gradient(real* grad) const;

  ObserverLink*& observers() { return observers_; }
  // Takes over the mode, the observers and where gradients go.
  void use_settings_of(const Tape& other);

  std::size_t size() const { return count_; }                 // nodes since clear()
  std::size_t capacity() const { return arena_.capacity(); }  // bytes held from the system
  std::size_t used() const { return arena_.used(); }          // bytes in use since clear()
  Arena& arena() { return arena_; }

 private:
  friend class TapeMark;

  static constexpr std::size_t kChunk = 256;
  struct Redirect {
    std::span<real> home;
    real* target = nullptr;
  };

  // That an op used a parameter, and which of its values.
  struct Use {
    std::uint32_t node, version;
    const Node* leaf;
  };

  Node& node_at(std::size_t index) { return chunks_[index / kChunk][index % kChunk]; }
  Node& new_node(const Shape& shape, real* values);
  void truncate(std::size_t count);
  void run_backward(std::size_t from);
  void check_unchanged(const Use& use);
  void keep_gradient(Node& node);
  void recycle_gradient(Node& node);
  void check_owned(const Tensor& tensor) const;

  Arena arena_;
  std::vector<Node*> chunks_;
  std::size_t count_ = 0;
  std::vector<Use> uses_;
  std::size_t backwards_ = 0;  // since clear()
  Redirect redirect_;
  bool in_backward_ = false;
  ObserverLink* observers_ = nullptr;
};

// The calling thread's current tape: its own default one, unless a UseTape is in scope.
Tape& tape();

// tape().backward(loss)
inline void backward(const Tensor& loss) { tape().backward(loss); }

namespace detail {
Tape*& chosen_tape();  // null for the thread's default tape
}

// Makes `tape` the thread's current tape for a scope.
class UseTape {
 public:
  explicit UseTape(Tape& tape) : chosen_(detail::chosen_tape(), &tape) {}

 private:
  ScopedValue<Tape*> chosen_;
};

// Sets the current tape's mode for a scope: UseMode eval(Mode::eval);
class UseMode {
 public:
  explicit UseMode(Mode mode) : mode_(tape().mode, mode) {}

 private:
  ScopedValue<Mode> mode_;
};

// Computes without recording for a scope: nothing in it carries a gradient. Unlike in Mode::eval, dropout
// stays as it is.
class NoGrad {
  ScopedValue<bool> recording_{tape().recording, false};
};

// Forgets at the end of the scope every tensor made inside it: long evaluations in little memory.
class TapeMark {
 public:
  TapeMark() : tape_(tape()), nodes_(tape_.count_), arena_(tape_.arena_.mark()) {}
  ~TapeMark() {
    tape_.truncate(nodes_);
    tape_.arena_.rewind(arena_);
  }
  TapeMark(const TapeMark&) = delete;
  TapeMark& operator=(const TapeMark&) = delete;

 private:
  Tape& tape_;
  std::size_t nodes_;
  Arena::Mark arena_;
};

// For prediction: evaluates, without recording and without dropout, and forgets at the end of the scope every tensor
// made inside it. What must outlive it is copied out: { const Inference inference; ids = argmax(model(x)); }
class Inference {
  UseMode mode_{Mode::eval};
  TapeMark mark_;
};

// Persistent nodes for leaves that outlive every tape. The caller owns the values and gradients and
// releases the node when done; handles left over are then stale.
Node& acquire_leaf(const Shape& shape, real* values, real* grads, const std::string* name);
void release_leaf(Node& node);
// To be called when the values of a leaf change: backward through ops that used the old ones then throws StateError.
inline void mark_changed(Node& leaf) { ++leaf.index; }

template <class F>
void Tape::attach(const Tensor& output, const F& backward) {
  static_assert(std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F>,
                "a backward closure lives in the arena: capture handles, pointers and numbers only");
  static_assert(alignof(F) <= Arena::kAlignment);
  Node& node = output.node();
  node.requires_grad = true;
  node.closure = new (arena_.allocate(sizeof(F))) F(backward);
  node.backward = [](const void* closure) { (*static_cast<const F*>(closure))(); };
}

// Records on the current tape how the gradient of `output` reaches `inputs`, unless the mode is eval, the
// tape does not record, or no input requires a gradient. `backward` reads grad_of(output) and adds to grad_of(x)
// of each input x with requires_grad(). `op` is the op's name, a string literal. Optional inputs come last: empty
// handles there are left out.
template <class F>
void record(const char* op, const Tensor& output, std::initializer_list<Tensor> inputs, const F& backward) {
  tape().record(op, output, {inputs.begin(), inputs.size()}, backward);
}

}  // namespace seppo::inline SEPPO_ABI
