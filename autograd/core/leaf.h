// Leaves that outlive every tape, such as parameters, and views of their values.
#pragma once

#include "node.h"
#include "tensor.h"

#include <cstddef>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// A node for values and gradients that the caller owns. The caller releases it when done; handles left over are then
// stale.
Node& acquire_leaf(const Shape& shape, real* values, real* grads, const std::string* name);
void release_leaf(Node& node);

// Call it when the values of a leaf change: backward through ops that used the old ones then throws StateError.
inline void mark_changed(Node& leaf) { ++leaf.version; }

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

}  // namespace SEPPO_ABI
}  // namespace seppo
