// A tensor's value, gradient and text.
#include "tensor.h"

#include "check.h"
#include "gradient.h"
#include "leaf.h"
#include "tape.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>

namespace seppo {
inline namespace SEPPO_ABI {

double Tensor::item() const {
  check(numel() == 1, "item: the tensor must have one element, got ", *this);
  return static_cast<double>(*data());
}

double Tensor::element(List<std::int64_t> index) const {
  check(std::ssize(index) == rank(), "at: ", index.size(), " indices given for ", *this);
  std::size_t place = 0;
  for (int axis = 0; axis < rank(); ++axis) {
    const std::int64_t n = size(axis);
    const std::int64_t i = index[static_cast<std::size_t>(axis)];
    check<IndexError>(i >= -n && i < n, "at: index ", i, " is not in 0..", n - 1, ", dim ", axis, " of ", *this);
    place = place * static_cast<std::size_t>(n) + static_cast<std::size_t>(i < 0 ? i + n : i);
  }
  return static_cast<double>(data()[place]);
}

real* Tensor::data_in_leaf() const {
  const Node& n = node();
  check<StateError>(n.tape || !n.closure, "the values of ", *this, " are compact: only linear, embedding and ",
                    "linear_cross_entropy read them, and nothing in backward");
  if (!n.tape || !n.part) return nullptr;  // a leaf without elements
  return n.part->leaf.data() + n.part->offset;
}

namespace {

// The end of the gradient's way through a view that has its own.
void add_to_base(const Tensor& view) {
  const Tensor base(*view.node().base);
  if (!base.requires_grad()) return;  // a leaf that was frozen after the view was made
  const std::ptrdiff_t offset = view.data() - base.data();
  const real* const dy = grad_of(view);
  real* const dx = grad_of(base) + offset;
  for (std::size_t i = 0; i < view.numel(); ++i) dx[i] += dy[i];
}

// Where backward has added up the gradient; null if it has not reached the tensor.
const real* added_up(const Tensor& x) {
  const Node& n = x.node();
  switch (n.kind()) {
    case Node::Kind::leaf:
      return tape().leaf_gradient(x);
    case Node::Kind::variable:
      return n.grad;
    case Node::Kind::computed:
      return n.retained;
  }
  return nullptr;
}

}  // namespace

const Tensor& Tensor::retain_grad() const {
  Node& n = node();
  n.retains_grad = true;
  if (n.requires_grad && n.shares_gradient()) n.tape->attach(*this, [view = *this] { add_to_base(view); });
  return *this;
}

std::span<const real> Tensor::grad() const {
  const Node& n = node();
  check<StateError>(n.requires_grad, "grad: tensor ", *this, " does not require a gradient");
  check<StateError>(n.kind() != Node::Kind::computed || n.retains_grad, "grad: that of ", *this,
                    ", which an op computed, is not kept; call retain_grad() on it before backward");
  const real* const grad = added_up(*this);
  check<StateError>(grad != nullptr, "grad: backward has not reached ", *this);
  return {grad, numel()};
}

std::string Tensor::describe() const {
  const Tensor leaf = leaf_of(*this);
  const std::string* name = leaf.defined() ? leaf.node().name() : nullptr;
  return name ? shape().str() + " (" + *name + ")" : shape().str();
}

// Nodes of leaves are reused for leaves only, so a stale handle still tells which kind it was.
void Tensor::stale() const {
  if (!node_) fail<StateError>("tensor: an empty handle was used");
  if (!node_->tape) fail<StateError>("tensor: stale handle; the Parameters that its values belonged to have ended");
  fail<StateError>("tensor: stale handle; its tape was cleared, or rewound, after it was made");
}

namespace {

// Appends the text of the part of x from `axis` on, which `row` entries precede. Numbers are padded to `width`, which
// grows with the longest.
void print(std::string& text, int& width, const Tensor& x, int axis, std::size_t row) {
  constexpr int kEdge = 3;
  if (axis == x.rank()) {
    std::array<char, 64> number;
    width = std::max(width, std::snprintf(number.data(), number.size(), "%*.4g", width, double{x.data()[row]}));
    text += number.data();
    return;
  }
  const int n = x.size(axis);
  const int inner = x.rank() - 1 - axis;
  const bool elides = x.numel() > 1000 && n > 2 * kEdge;
  std::string gap = " ";
  if (inner > 0)
    gap = std::string(static_cast<std::size_t>(inner), '\n') + std::string(static_cast<std::size_t>(axis) + 1, ' ');
  text += '[';
  for (int i = 0; i < n; ++i) {
    if (i > 0) text += gap;
    if (elides && i == kEdge) {
      text += "..." + gap;
      i = n - kEdge;
    }
    print(text, width, x, axis + 1, row * static_cast<std::size_t>(n) + static_cast<std::size_t>(i));
  }
  text += ']';
}

}  // namespace

std::string to_string(const Tensor& x) {
  if (x.numel() == 0) return "[]";
  std::string text;
  int width = 0;
  print(text, width, x, 0, 0);
  text.clear();
  print(text, width, x, 0, 0);  // now as wide as the longest number
  return text;
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

}  // namespace SEPPO_ABI
}  // namespace seppo
