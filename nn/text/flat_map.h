// A hash table from 64-bit keys to small values, in one block of memory: for tables that are built once and then read
// for each byte of a text. Keys are probed one after the other.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

template <class Value>
class FlatMap {
 public:
  std::size_t size() const { return size_; }

  // Null if the key is not there.
  const Value* find(std::uint64_t key) const {
    if (slots_.empty()) return nullptr;
    for (std::size_t at = place_of(key);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].first == key) return &slots_[at].second;
      if (slots_[at].first == kNone) return nullptr;
    }
  }

  // The value of the key, and whether it was added; a value that is there remains. ~0 is not a key.
  std::pair<Value*, bool> add(std::uint64_t key, const Value& value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    std::size_t at = place_of(key);
    for (; slots_[at].first != kNone; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].first == key) return {&slots_[at].second, false};
    slots_[at] = {key, value};
    ++size_;
    return {&slots_[at].second, true};
  }

  // Calls f(key, value) for each.
  template <class F>
  void each(const F& f) const {
    for (const auto& [key, value] : slots_)
      if (key != kNone) f(key, value);
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  // Multiplied by 2^64 / golden ratio, the high bits depend on all bits below (Knuth, volume 3, 6.4).
  std::size_t place_of(std::uint64_t key) const {
    const std::uint64_t mixed = (key ^ key >> 32) * 0x9E3779B97F4A7C15;
    return static_cast<std::size_t>(mixed >> 32 ^ mixed >> 16) & (slots_.size() - 1);
  }

  void grow() {
    std::vector<std::pair<std::uint64_t, Value>> old(slots_.empty() ? 16 : 2 * slots_.size(), {kNone, Value{}});
    old.swap(slots_);
    size_ = 0;
    for (const auto& [key, value] : old)
      if (key != kNone) add(key, value);
  }

  std::vector<std::pair<std::uint64_t, Value>> slots_;
  std::size_t size_ = 0;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
