// Node: what a tensor refers to, an entry of a tape or a persistent leaf such as a parameter.
//
// A node's memory is never returned to the system, only reused for other nodes, so comparing generations is always
// safe.
#pragma once

#include "real.h"
#include "shape.h"

#include <cstdint>
#include <memory>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

class Tape;
struct LeafPart;

// Two cache lines: unaligned it would touch three.
struct alignas(64) Node {
  enum class Kind {
    leaf,      // persistent; the tape that backward runs on knows where its gradient is
    variable,  // of a tape, and computed by no op: backward adds up its gradient
    computed   // by an op, or a view: backward takes its gradient back, but for a copy that retain_grad() asks for
  };

  std::uint64_t generation = 0;  // odd while alive; a handle remembers the one it was made for
  Tape* tape = nullptr;          // null for a persistent leaf
  union {
    std::uint32_t index = 0;  // position on the tape: creation order
    std::uint32_t version;    // of a persistent leaf: how often its values have changed
  };
  bool requires_grad = false;
  bool retains_grad = false;  // backward adds the gradient to `retained`
  Shape shape = {};
  real* data = nullptr;      // null if the values are a leaf's: they may move, and `part` says where they are
  real* grad = nullptr;      // null until first touched
  real* retained = nullptr;  // null until backward has passed
  Node* base = nullptr;      // of a view: what it was made from. Links nodes that wait for reuse.
  void (*backward)(const void* closure) = nullptr;
  const void* closure = nullptr;  // of a leaf: its CompactMatrix, if its values are no reals; then `data` is null
  union {
    const std::string* leaf_name = nullptr;  // of a persistent leaf
    const LeafPart* part;                    // of a tape's entry: null unless its values are a leaf's
  };
  const char* op = nullptr;             // what computed it, for tools
  const std::string* region = nullptr;  // and in which module

  Kind kind() const {
    if (!tape) return Kind::leaf;
    return backward || base ? Kind::computed : Kind::variable;
  }
  // A view has its base's gradient until retain_grad() or record() gives it one of its own, which goes to the base.
  bool shares_gradient() const { return base != nullptr && backward == nullptr; }
  const std::string* name() const { return tape ? nullptr : leaf_name; }  // of a leaf, for messages; may be null

  // Begins another life: resets everything but the generation, which only grows.
  void revive() {
    const std::uint64_t previous = generation;
    std::construct_at(this)->generation = previous + 1;
  }
  // Ends it: handles are now stale.
  void kill() { generation += generation % 2; }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
