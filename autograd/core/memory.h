// Memory: a zeroed block for large, long-lived data such as parameters and moments; and a thread's scratch buffer.
//
//   const Memory block(n * sizeof(real));
//   real* values = block.as<real>();
#pragma once

#include "real.h"

#include <cstddef>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

// From 256 KiB on it is mapped: untouched pages cost nothing, huge pages save page faults and TLB
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

}  // namespace SEPPO_ABI
}  // namespace seppo
