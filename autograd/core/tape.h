// Tape: records what was computed, so that backward() can walk it in reverse, and shows it to observers.
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

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class Observer;
// The observers of a tape: a list, linked by the Observe scopes (below).
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

  Mode mode = Mode::train;
  bool recording = true;    // false: compute only, as within NoGrad; dropout follows the mode
  bool recomputes = false;  // while checkpoint() computes again: running statistics stay
  // Keys the dropout masks of this step. clear() starts the next step; a context that was assigned as a whole stays the
  // same, as Trainer and loops that can be resumed need: tape().random = {.seed = 1, .step = 7};
  RandomContext random = {.advances = true};
  bool records() const { return mode == Mode::train && recording; }

  // Forgets every tensor and closure; memory is kept for the next step. Throws StateError during backward.
  void clear();

  // Adds d(loss)/d(leaf) to the gradient of every leaf. `loss` has one element.
  // Throws ShapeError otherwise, StateError if nothing was recorded for it. The graph stays until clear(),
  // so backward may be called again, for this or another output; gradients add up. If an op throws,
  // leaves keep the gradients that have reached them. There are no second derivatives: an op that would be
  // recorded during backward throws StateError, and so does an op whose parameters have changed since, and backward
  // within the loss of a Trainer.
  void backward(const Tensor& loss);
  // The same for any shape: adds the product of the cotangent with the Jacobian of `output`.
  void backward(const Tensor& output, std::span<const real> cotangent);

  // A tensor without history. `external` values are not copied and must outlive it.
  Tensor create(const Shape& shape);  // uninitialised
  Tensor create_external(const Shape& shape, real* values) { return Tensor(new_node(shape, values)); }
  // Without history, too: shares the values of x, which may belong to another tape, from element `offset` on.
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

  std::size_t size() const { return count_; }                 // nodes since clear()
  std::size_t capacity() const { return arena_.capacity(); }  // bytes held from the system
  std::size_t used() const { return arena_.used(); }          // bytes in use since clear()
  Arena& arena() { return arena_; }

 private:
  friend class TapeMark;
  friend class UseTape;

  static constexpr std::size_t kChunk = 256;
  struct Redirect {
    std::span<real> home;
    real* target = nullptr;
  };

  // Records that an op used a parameter, and which version of its values.
  struct Use {
    std::uint32_t node, version;
    Tensor leaf;
  };

  static Tape*& chosen();  // null for the thread's default tape
  Node& node_at(std::size_t index) { return chunks_[index / kChunk][index % kChunk]; }
  Node& new_node(const Shape& shape, real* values);
  void truncate(std::size_t count);
  void run_backward(std::size_t from);
  void check_unchanged(const Use& use);
  void keep_gradient(Node& node);
  void recycle_gradient(Node& node);
  void check_owned(const char* op, const Tensor& tensor) const;

  Arena arena_;
  std::vector<Node*> chunks_;
  std::size_t count_ = 0;
  std::vector<Use> uses_;
  std::size_t backwards_ = 0, clears_ = 0;  // backward passes since clear(); calls of clear()
  std::optional<Redirect> redirect_;
  bool in_backward_ = false;
  ObserverLink* observers_ = nullptr;
};

// The calling thread's current tape: its own default one, unless a UseTape is in scope.
Tape& tape();

// tape().backward(loss)
inline void backward(const Tensor& loss) { tape().backward(loss); }

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
  static bool& is_in_scope();
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
  TapeMark() : nodes_(tape_.count_), backwards_(tape_.backwards_), arena_(tape_.arena_.mark()) {}
  ~TapeMark() {
    if (tape_.clears_ != clears_) nodes_ = 0, arena_ = {};  // everything on the tape is newer than the mark
    tape_.truncate(nodes_);
    // During backward, gradients of older tensors may have come to lie behind the mark, too.
    if (nodes_ == 0 || (tape_.backwards_ == backwards_ && !tape_.in_backward_)) tape_.arena_.rewind(arena_);
  }
  TapeMark(const TapeMark&) = delete;

 private:
  Tape& tape_ = tape();
  std::size_t nodes_, backwards_, clears_ = tape_.clears_;
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
// Call it when the values of a leaf change: backward through ops that used the old ones then throws StateError.
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

// ---- regions and observers

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

// A named part of a computation, such as one module of a model. Its name appears in errors, "(in
// encoder.0.ffn.up)", and tells observers which module an op belongs to.
//
//   Tensor operator()(const Tensor& x) const {
//     const Region here(name);                // name: a RegionName made from the Scope's path
//     return here(linear(x, weight, bias));   // tells observers that this is the module's output
//   }
//
// Regions nest; each has its full name, so the innermost one counts. A region without a name does nothing.
class Region {
 public:
  explicit Region(RegionName name);

  // The region's result, to be returned: observers of the current tape are told.
  const Tensor& operator()(const Tensor& output) const;

 private:
  RegionName name_;
  ScopedValue<RegionName> current_;
};

// Sees what a tape computes, op by op, forward and backward. The tape's only hook for tools.
//
// tools/observers.h has observers that find NaNs, time ops and show what modules compute; examples/small/graph.cpp is
// one to copy. Without an observer, an op pays for storing its name and for one comparison.
//
// An observer sees the tape it was set on, in the thread that uses it. An exception thrown by an observer
// propagates as if the op itself had thrown it.
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

}  // namespace SEPPO_ABI
}  // namespace seppo
