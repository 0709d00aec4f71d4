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
#include "list.h"
#include "node.h"
#include "real.h"
#include "shape.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

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
  double item() const;  // the value of a one-element tensor; throws ShapeError for any other

  // One element: x.at(row, column). Negative indices count from the end. Throws ShapeError unless there is an index for
  // each axis, IndexError for one out of range.
  template <std::integral... I>
  double at(I... index) const {
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
  double element(List<std::int64_t> index) const;

  Node* node_ = nullptr;
  std::uint64_t generation_ = 0;
};

// The values as NumPy prints them, to four significant digits: rows in brackets, columns aligned. Of axes with more
// than six entries only the first and last three are shown when the tensor has more than 1000 elements.
std::string to_string(const Tensor& x);
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace SEPPO_ABI
}  // namespace seppo
