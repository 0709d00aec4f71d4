// The pool that nodes come from. Nodes of destroyed tapes and released leaves wait in it for reuse; they are never
// freed, so that stale handles can always be recognised.
#pragma once

#include "node.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

constexpr std::size_t kNodesPerChunk = 256;  // a tape takes so many at a time

Node* take_chunk();  // the first of kNodesPerChunk nodes in a row
void give_back_chunk(Node* chunk);

// Nodes of leaves are reused for leaves only, so a stale handle still tells which kind it was.
Node& take_leaf();
void give_back_leaf(Node& leaf);

}  // namespace SEPPO_ABI
}  // namespace seppo
