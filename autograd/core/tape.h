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
// A tape belongs to one thread. Handles of another tape are refused with StateError. guards.h has what changes a tape
// for a scope, such as NoGrad.
#pragma once

#include "arena.h"
#include "random.h"
#include "tensor.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct ObserverLink;

enum class Mode {
  train,  // record; dropout is active
  eval    // record nothing; dropout is the identity
};

class Tape {
 public:
  Tape() = default;
  ~Tape();
  Tape(const Tape&) = delete;

  Mode mode = Mode::train;
  bool recording = true;     // false: compute only, as within NoGrad; dropout follows the mode
  bool recomputes = false;   // while checkpoint() computes again: running statistics stay
  bool sees_a_part = false;  // of a batch, other parts of which are on other tapes or ranks, or come later
  // Keys the dropout masks of this step; clear() begins the next one. So a loop that has taken 7 steps and is resumed
  // has the same masks as one that never stopped if it sets tape().random = {.seed = 1, .step = 7} before it goes on.
  RandomContext random;
  bool records() const { return mode == Mode::train && recording; }

  // Forgets every tensor and closure, and begins the next step of `random`; memory is kept. Throws StateError during
  // backward.
  void clear();
  // Takes so much memory at once, if the tape has no tensors and less memory than that.
  void reserve(std::size_t bytes) { arena_.reserve(bytes); }

  // Adds d(loss)/d(leaf) to the gradient of every leaf. `loss` has one element.
  // Throws ShapeError otherwise, StateError if nothing was recorded for it. The graph stays until clear(),
  // so backward may be called again, for this or another output; gradients add up. If an op throws,
  // leaves keep the gradients that have reached them. There are no second derivatives: an op that would be
  // recorded during backward throws StateError, and so does an op whose parameters have changed since, and backward
  // within the loss of a Trainer. A loop that never calls clear() gets a StateError at the 10,000th pass: each found
  // the tape longer.
  void backward(const Tensor& loss);
  // The same for any shape: adds the product of the cotangent with the Jacobian of `output`.
  void backward(const Tensor& output, std::span<const real> cotangent);

  // A tensor without history. `external` values are not copied and must outlive it.
  Tensor create(const Shape& shape);  // uninitialised
  Tensor create_external(const Shape& shape, real* values) { return Tensor(new_node(shape, values)); }
  // Also without history: it shares the values of x from element `offset` on. x may belong to another tape.
  Tensor share(const Tensor& x, const Shape& shape, std::ptrdiff_t offset = 0);
  // Shares the values of `base` from element `offset` on, and its gradient unless retain_grad() is called.
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

  // For an op that ran others on a tape of its own: makes it depend on the parameters they used.
  void use_parameters_of(const Tape& inner, const Tensor& output) {
    for (const Use& use : inner.uses_) uses_.push_back({output.node().index, use.version, use.leaf});
  }

  // A moment, to rewind() to: forgets every tensor that was made since. Gradients that backward has brought to older
  // tensors since stay, and then so does the memory, until clear().
  struct Position {
    std::size_t nodes, backwards, clears;
    Arena::Mark arena;
  };
  Position position() const { return {count_, backwards_, clears_, arena_.mark()}; }
  void rewind(const Position& position);

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
  // of a batch has a gradient block of its own. Other leaves have none there, and their gradients would be added up by
  // several threads at once: backward throws StateError when it reaches one.
  void redirect_gradients(std::span<real> home, real* target) { redirect_ = Redirect{home, target}; }
  real* leaf_gradient(const Tensor& leaf) const;

  ObserverLink*& observers() { return observers_; }
  // Takes over the mode, the observers and where gradients go.
  void use_settings_of(const Tape& other);

  std::size_t size() const { return count_; }                   // nodes since clear()
  std::size_t capacity() const { return arena_.capacity(); }    // bytes held from the system
  std::size_t used() const { return arena_.used(); }            // bytes in use since clear()
  std::size_t most_used() const { return arena_.most_used(); }  // the largest used() since clear()
  Arena& arena() { return arena_; }

 private:
  friend class UseTape;

  struct Redirect {
    std::span<real> home;
    real* target = nullptr;
  };

  // An op used a parameter, and this version of its values.
  struct Use {
    std::uint32_t node;
    std::uint32_t version;
    Tensor leaf;
  };

  static Tape*& chosen();  // null for the thread's default tape
  Node& node_at(std::size_t index);
  Node& new_node(const Shape& shape, real* values);
  void truncate(std::size_t count);
  void note_uses(const Tensor& output, std::span<const Tensor> inputs);
  void run_backward(std::size_t from);
  void run_closure(Node& node);
  void expect_clear();
  void check_unchanged(const Use& use);
  void keep_gradient(Node& node);
  void recycle_gradient(Node& node);
  void check_owned(const char* op, const Tensor& tensor) const;

  Arena arena_;
  std::vector<Node*> chunks_;
  std::size_t count_ = 0;
  std::vector<Use> uses_;
  std::size_t backwards_ = 0;  // backward passes since clear()
  std::size_t longer_ = 0;     // those of them that began on a longer tape than all before
  std::size_t longest_ = 0;    // the most nodes that one of them began with
  std::size_t clears_ = 0;     // calls of clear()
  std::optional<Redirect> redirect_;
  bool in_backward_ = false;
  ObserverLink* observers_ = nullptr;
};

// The calling thread's current tape: its own default one, unless a UseTape is in scope.
Tape& tape();

// tape().backward(loss)
inline void backward(const Tensor& loss) { tape().backward(loss); }

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

}  // namespace SEPPO_ABI
}  // namespace seppo
