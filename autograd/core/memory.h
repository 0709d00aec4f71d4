// Memory: a zeroed block straight from the system, for what is large and lives long: parameters,
// moments, arenas. Pages count only once they are touched, may be huge ones (fewer page faults and TLB
// misses), and go back to the system at once.
#pragma once

#include "real.h"

#include <cstddef>
#include <utility>

namespace seppo::inline SEPPO_ABI {

class Memory {
 public:
  static constexpr std::size_t kAlignment = 64;  // at least: a cache line, and the widest vector

  Memory() = default;
  // Throws std::bad_alloc. Large blocks get huge pages, smaller ones if `huge`: for what is soon written as a whole.
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

}  // namespace seppo::inline SEPPO_ABI
