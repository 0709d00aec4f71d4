// Leaves: nodes from the pool, that no tape has.
#include "leaf.h"

#include "compact_matrix.h"
#include "node_pool.h"

namespace seppo {
inline namespace SEPPO_ABI {

Node& acquire_leaf(const Shape& shape, real* values, real* grads, const std::string* name) {
  Node& node = take_leaf();
  node.revive();
  node.requires_grad = true;
  node.shape = shape;
  node.data = values;
  node.grad = grads;
  node.leaf_name = name;
  return node;
}

void release_leaf(Node& node) {
  delete static_cast<const CompactMatrix*>(node.closure);
  node.kill();
  give_back_leaf(node);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
