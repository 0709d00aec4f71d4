// Memory, a block for large, long-lived data such as parameters and moments; and Arena, a tape's allocator.
#pragma once

#include "real.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// A zeroed block. From 256 KiB on it is mapped: untouched pages cost nothing, huge pages save page faults and TLB
// misses, and the memory returns to the system at once. Smaller ones come from operator new.
class Memory {
 public:
  static constexpr std::size_t kAlignment = 64;  // at least: a cache line, and the widest vector

  Memory() = default;
  // Throws std::bad_alloc. `huge` asks for huge pages in smaller blocks too, for data soon written as a whole.
  explicit Memory(std::size_t bytes, bool huge = false);
  ~Memory();
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Enlarges `memory` if necessary: for buffers that a thread keeps from one use to the next.
inline Memory& at_least(Memory& memory, std::size_t bytes) {
  if (memory.size() < bytes) memory = Memory(bytes);
  return memory;
}

// The calling thread's buffer, for what a kernel writes and reads within one call.
inline Memory& scratch_memory(std::size_t bytes) {
  static thread_local Memory memory;
  return at_least(memory, bytes);
}

// The memory of one training step.
//
// allocate() bumps a pointer; reset() takes everything back at once. When a step needed several blocks, reset()
// replaces them by one block of their total size, so that from the second step on a step of the same size allocates
// nothing. recycle() returns a piece early, for reuse by the next allocate_recycled() of its size class: gradients
// come and go this way during backward.
// Under AddressSanitizer, memory that is not handed out is poisoned, and so are gaps between the pieces.
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

  std::size_t capacity() const;  // bytes held from the system
  std::size_t used() const;      // bytes in use since reset(), recycled or not

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
  void free_blocks();

  std::vector<Block> blocks_;
  std::size_t block_ = 0;  // the block in use; later ones are empty
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
