// Arena: a tape's allocator, which holds the memory of one training step.
//
// allocate() bumps a pointer; reset() takes everything back at once. When a step needed several blocks, reset()
// replaces them by one block of their total size, so that from the second step on a step of the same size allocates
// nothing. recycle() returns a piece early, for reuse by the next allocate_recycled() of its size class: gradients
// come and go this way during backward.
// Under AddressSanitizer, memory that is not handed out is poisoned, and so are gaps between the pieces.
#pragma once

#include "memory.h"
#include "real.h"

#include <array>
#include <cstddef>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class Arena {
 public:
  static constexpr std::size_t kAlignment = Memory::kAlignment;

  // A position to rewind() to.
  struct Mark {
    std::size_t block, used;
  };

  Arena() = default;
  ~Arena() { free_blocks(); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* allocate(std::size_t bytes);           // uninitialised, 64-byte aligned
  void* allocate_recycled(std::size_t bytes);  // likewise; prefers a recycled piece
  void recycle(void* piece, std::size_t bytes);

  Mark mark() const { return {block_, blocks_.empty() ? 0 : blocks_[block_].used}; }
  void rewind(Mark mark);  // forgets recycled pieces
  void reset();
  // Makes one block of at least this size of an arena that is not in use. Pages that are never used cost nothing.
  void reserve(std::size_t bytes);

  std::size_t capacity() const;   // bytes held from the system
  std::size_t used() const;       // bytes in use since reset(), recycled or not
  std::size_t most_used() const;  // the largest used() since reset()

 private:
  struct Piece {
    Piece* next;
  };
  struct Block {
    Memory memory;
    std::size_t used = 0;

    std::byte* top() const { return memory.data() + used; }
  };
  static constexpr std::size_t kFirstBlock = std::size_t{64} << 10;
  static constexpr int kClasses = 8 * 48;

  void grow(std::size_t bytes);
  void add_block(std::size_t bytes);
  void note_most_used();
  void free_blocks();

  std::vector<Block> blocks_;
  std::size_t block_ = 0;      // the block in use; later ones are empty
  std::size_t most_used_ = 0;  // as noted when pieces were last given back
  std::array<Piece*, kClasses> recycled_{};
};

// Scratch memory for the length of a scope.
template <class T = real>
class RecycledArray {
 public:
  RecycledArray(Arena& arena, std::size_t size)
      : arena_(arena), bytes_(size * sizeof(T)), data_(static_cast<T*>(arena.allocate_recycled(bytes_))) {}
  ~RecycledArray() { arena_.recycle(data_, bytes_); }
  RecycledArray(const RecycledArray&) = delete;

  T* data() const { return data_; }

 private:
  Arena& arena_;
  std::size_t bytes_;
  T* data_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
