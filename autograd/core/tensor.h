// Tensor: a handle to a value on the tape, or to a persistent leaf such as a parameter.
//
// Values are contiguous, row-major, at most six axes, of one scalar type (`real`). A handle is two
// words and is passed by reference or value alike; copying it never copies the values. Tensors of a
// step live until Tape::clear(); using a handle after that throws StateError, in every build. What
// must outlive the step is copied out.
#pragma once

#include "real.h"
#include "shape.h"
#include "utility.h"

#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <span>
#include <string>

namespace seppo::inline SEPPO_ABI {

class Tape;

// One entry of a tape, or one persistent leaf. Its memory is never returned to the system, only
// reused for other nodes, so comparing generations is always safe. Two cache lines: unaligned it would touch three.
struct alignas(64) Node {
  std::uint64_t generation = 0;  // odd while alive; a handle remembers the one it was made for
  Tape* tape = nullptr;          // null for a persistent leaf
  std::uint32_t index = 0;       // position on the tape: creation order; of a leaf: how often its values have changed
  bool requires_grad = false;
  bool retains_grad = false;  // backward adds the gradient to `retained`
  Shape shape;
  real* data = nullptr;
  real* grad = nullptr;      // null until first touched
  real* retained = nullptr;  // null until backward has passed
  Node* base = nullptr;      // of a view: owns its values and its gradient. Links nodes that wait for reuse.
  void (*backward)(const void* closure) = nullptr;
  const void* closure = nullptr;
  const std::string* name = nullptr;    // of a leaf, for messages
  const char* op = nullptr;             // what computed it, for tools
  const std::string* region = nullptr;  // and in which module
};

// Where a backward function adds a gradient: grad = beta * grad + term. beta is 0 when the memory
// is uninitialised and must be overwritten, else 1.
struct GradTarget {
  real* grad;
  real beta;
};

class Tensor {
 public:
  Tensor() = default;  // empty: only defined() may be asked
  explicit Tensor(Node& node) : node_(&node), generation_(node.generation) {}

  bool defined() const { return node_ != nullptr; }
  const Shape& shape() const { return node().shape; }
  int rank() const { return shape().rank(); }
  int size(int axis) const { return shape()[axis]; }                               // negative axes count from the end
  std::size_t numel() const { return static_cast<std::size_t>(shape().numel()); }  // number of elements
  std::size_t rows() const { return static_cast<std::size_t>(shape().rows()); }
  std::size_t cols() const { return static_cast<std::size_t>(shape().cols()); }

  real* data() const { return node().data; }
  std::span<const real> values() const { return {node().data, numel()}; }
  real item() const;  // the value of a one-element tensor; throws ShapeError for any other

  // One element: x.at(row, column). Negative indices count from the end. Throws ShapeError unless there is an index for
  // each axis, IndexError for one out of range.
  template <std::integral... I>
  real at(I... index) const {
    return element({static_cast<int>(index)...});
  }

  bool requires_grad() const { return node().requires_grad; }
  // Keeps the gradient of a computed tensor readable after backward, which adds to it each time. Leaves always keep
  // theirs.
  const Tensor& retain_grad() const;
  // The gradient that backward has added up. Throws StateError where PyTorch's x.grad is None: nothing recorded, not
  // reached by backward since tape().clear(), or computed by an op and not kept by retain_grad(). Parameters always
  // have one, zero at first.
  std::span<const real> grad() const;

  Node& node() const {
    if (!node_ || node_->generation != generation_) [[unlikely]]
      stale();
    return *node_;
  }
  friend void append(std::string& text, const Tensor& tensor) { text += tensor.describe(); }
  std::string describe() const;  // "[2,3]", with the name if it is a leaf: "[2,3] (up.weight)"

 private:
  [[noreturn]] void stale() const;
  real element(List<int> index) const;

  Node* node_ = nullptr;
  std::uint64_t generation_ = 0;
};

// The values as NumPy prints them, to four significant digits: rows in brackets, columns aligned. Of axes with more
// than six entries only the first and last three are shown when the tensor has more than 1000 elements.
std::string to_string(const Tensor& x);
std::ostream& operator<<(std::ostream& out, const Tensor& x);

// For backward functions: where the gradient of x is added up. Both allocate on first touch.
real* grad_of(const Tensor& x);           // zeros at first; add to it
GradTarget grad_target(const Tensor& x);  // for code that can overwrite instead of adding to zeros
// grad_of(x), or null if x is empty or does not require a gradient.
real* grad_if_required(const Tensor& x);

}  // namespace seppo::inline SEPPO_ABI
