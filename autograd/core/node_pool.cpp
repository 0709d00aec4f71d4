// Two lists of nodes, linked by `base`.
#include "node_pool.h"

#include <mutex>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

class FreeList {
 public:
  // Each entry has `size` nodes in a row.
  explicit FreeList(std::size_t size) : size_(size) {}

  Node* take() {
    const std::lock_guard lock(mutex_);
    return first_ ? std::exchange(first_, first_->base) : new Node[size_];
  }

  void give_back(Node* nodes) {
    const std::lock_guard lock(mutex_);
    nodes->base = std::exchange(first_, nodes);
  }

 private:
  std::mutex mutex_;
  std::size_t size_;
  Node* first_ = nullptr;
};

// The lists are leaked on purpose: destructors of static objects may still examine handles.
FreeList& chunks() {
  static FreeList* const list = new FreeList(kNodesPerChunk);
  return *list;
}

FreeList& leaves() {
  static FreeList* const list = new FreeList(1);
  return *list;
}

}  // namespace

Node* take_chunk() { return chunks().take(); }
void give_back_chunk(Node* chunk) { chunks().give_back(chunk); }

Node& take_leaf() { return *leaves().take(); }
void give_back_leaf(Node& leaf) { leaves().give_back(&leaf); }

}  // namespace SEPPO_ABI
}  // namespace seppo
