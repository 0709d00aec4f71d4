// Tensor: a handle to a value on the tape, or to a persistent leaf such as a parameter.
//
// Values are contiguous, row-major, at most six axes, of one scalar type (`real`). A handle is two
// words and is passed by reference or value alike; copying it never copies the values. Tensors of a
// step live until Tape::clear(), parameters as long as their Parameters; using a handle after that throws
// StateError, in every build. What must outlive the step is copied out.
//
// A view (reshape, a slice of the first axis, detach) shares the values of the tensor it was made from, wherever they
// are: that of a parameter stays right when more parameters are added, which may move them.
#pragma once

#include "check.h"
#include "real.h"
#include "utility.h"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// The sizes of a tensor, at most six, stored inline (no heap). Sizes may be zero. Negative sizes, more than six of
// them, or more than 2^48 elements throw ShapeError. Row-major: the last axis is contiguous.
class Shape {
 public:
  static constexpr int kMaxRank = 6;
  static constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

  Shape() = default;  // rank 0: a scalar, one element
  Shape(std::initializer_list<int> sizes) : Shape(std::span<const int>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int> sizes);

  int rank() const { return static_cast<int>(rank_); }
  std::int64_t numel() const { return numel_; }  // number of elements; 1 for a scalar

  // Adds an axis at the end.
  void append(int size);
  // The same sizes except along one axis.
  Shape with(int axis, int size) const;

  // The size of an axis; negative axes count from the end. Throws IndexError out of range.
  int operator[](int axis) const {
    const int normal = axis < 0 ? axis + rank() : axis;
    if (normal < 0 || normal >= rank()) [[unlikely]]
      bad_axis(axis);
    return sizes_[normal];
  }

  // Normalises an axis to 0..rank-1. As in PyTorch, ops along an axis take a scalar's axes 0 and -1 for one of size 1.
  // Throws IndexError out of range, in the name of the op.
  int axis(int axis, const char* op = "shape") const {
    const int most = std::max(rank(), 1);
    if (axis < -most || axis >= most) [[unlikely]]
      bad_axis(axis, op);
    return axis < 0 ? axis + most : axis;
  }

  // A tensor seen as rows of its last axis: cols() = last size (1 for a scalar), rows() = the rest.
  int cols() const { return rank_ == 0 ? 1 : sizes_[rank_ - 1]; }
  std::int64_t rows() const {
    std::int64_t rows = 1;
    for (int axis = 0; axis < rank_ - 1; ++axis) rows *= sizes_[axis];
    return rows;
  }

  std::span<const int> sizes() const { return {sizes_, static_cast<std::size_t>(rank_)}; }
  std::string str() const;  // "[2,3]"

  friend void append(std::string& text, const Shape& shape) { text += shape.str(); }
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.sizes_, a.sizes_ + kMaxRank, b.sizes_);
  }

 private:
  [[noreturn]] void bad_axis(int axis, const char* op = "shape") const;

  int sizes_[kMaxRank] = {};
  std::int64_t numel_ : 56 = 1, rank_ : 8 = 0;  // in one word: a Node is two cache lines
};

class Tape;
struct LeafPart;

// One entry of a tape, or one persistent leaf. Its memory is never returned to the system, only
// reused for other nodes, so comparing generations is always safe. Two cache lines: unaligned it would touch three.
struct alignas(64) Node {
  std::uint64_t generation = 0;  // odd while alive; a handle remembers the one it was made for
  Tape* tape = nullptr;          // null for a persistent leaf
  std::uint32_t index = 0;       // position on the tape: creation order; of a leaf: how often its values have changed
  bool requires_grad = false;
  bool retains_grad = false;  // backward adds the gradient to `retained`
  Shape shape = {};
  real* data = nullptr;      // null if the values are a leaf's: they may move, and `part` says where they are
  real* grad = nullptr;      // null until first touched
  real* retained = nullptr;  // null until backward has passed
  Node* base = nullptr;      // of a view: what it was made from. Links nodes that wait for reuse.
  void (*backward)(const void* closure) = nullptr;
  const void* closure = nullptr;
  union {
    const std::string* leaf_name = nullptr;  // of a persistent leaf
    const LeafPart* part;                    // of a tape's entry: null unless its values are a leaf's
  };
  const char* op = nullptr;             // what computed it, for tools
  const std::string* region = nullptr;  // and in which module

  // A view has its base's gradient until retain_grad() or record() gives it one of its own, which goes to the base.
  bool shares_gradient() const { return base != nullptr && backward == nullptr; }
  const std::string* name() const { return tape ? nullptr : leaf_name; }  // of a leaf, for messages; may be null
};

// Where a backward function adds a gradient: grad = beta * grad + term. beta is 0 when the memory
// is uninitialised and must be overwritten, else 1.
struct GradTarget {
  real* grad;
  real beta;
};

class Tensor {
 public:
  Tensor() = default;  // empty: only defined() may be called
  explicit Tensor(Node& node) : node_(&node), generation_(node.generation) {}

  bool defined() const { return node_ != nullptr; }
  const Shape& shape() const { return node().shape; }
  int rank() const { return shape().rank(); }
  int size(int axis) const { return shape()[axis]; }                               // negative axes count from the end
  std::size_t numel() const { return static_cast<std::size_t>(shape().numel()); }  // number of elements
  std::size_t rows() const { return static_cast<std::size_t>(shape().rows()); }
  std::size_t cols() const { return static_cast<std::size_t>(shape().cols()); }

  real* data() const {
    const Node& n = node();
    return n.data ? n.data : data_in_leaf();
  }
  std::span<const real> values() const { return {data(), numel()}; }
  real item() const;  // the value of a one-element tensor; throws ShapeError for any other

  // One element: x.at(row, column). Negative indices count from the end. Throws ShapeError unless there is an index for
  // each axis, IndexError for one out of range.
  template <std::integral... I>
  real at(I... index) const {
    return element({static_cast<std::int64_t>(index)...});
  }

  bool requires_grad() const { return node().requires_grad; }
  // Keeps the gradient of a computed tensor readable after backward, which adds to it each time. That of a view is what
  // came through this view, and not through its base or other views. Leaves always keep theirs.
  const Tensor& retain_grad() const;
  // The gradient that backward has added up. Throws StateError where PyTorch's x.grad is None: nothing recorded, not
  // reached by backward since tape().clear(), or computed by an op and not kept by retain_grad(). Parameters always
  // have one, zero at first, unless they are frozen.
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
  real* data_in_leaf() const;
  real element(List<std::int64_t> index) const;

  Node* node_ = nullptr;
  std::uint64_t generation_ = 0;
};

// Where a tensor finds values that a leaf owns. A handle, since the leaf may end before the tensor.
struct LeafPart {
  Tensor leaf;
  std::ptrdiff_t offset;
};
// The leaf that owns the values of x: x itself, or what it is a view of. Empty if a tape owns them.
inline Tensor leaf_of(const Tensor& x) {
  const Node& n = x.node();
  if (!n.tape) return x;
  return n.part ? n.part->leaf : Tensor();
}

// The values as NumPy prints them, to four significant digits: rows in brackets, columns aligned. Of axes with more
// than six entries only the first and last three are shown when the tensor has more than 1000 elements.
std::string to_string(const Tensor& x);
std::ostream& operator<<(std::ostream& out, const Tensor& x);

// For backward functions: where the gradient of x is added up. Both allocate on first touch.
real* grad_of(const Tensor& x);           // zeros at first; add to it
GradTarget grad_target(const Tensor& x);  // for code that can overwrite instead of adding to zeros
// grad_of(x), or null if x is empty or does not require a gradient.
inline real* grad_if_required(const Tensor& x) { return x.defined() && x.requires_grad() ? grad_of(x) : nullptr; }

}  // namespace SEPPO_ABI
}  // namespace seppo
