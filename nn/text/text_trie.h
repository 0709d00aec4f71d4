// A set of texts, each with a number, of which those that begin somewhere are found byte by byte.
#pragma once

#include "flat_map.h"

#include "../../autograd/core/real.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class TextTrie {
 public:
  TextTrie() { roots_.fill(0); }

  bool empty() const { return numbers_.size() == 1; }

  // A text that is there already, or an empty one, changes nothing.
  void add(std::string_view text, int number) {
    std::uint32_t node = 0;
    for (const char c : text) node = node_behind(node, c);
    if (node > 0 && numbers_[node] == kNone) numbers_[node] = number;
  }

  // The text is as if it had not been added, if it has this number.
  void remove(std::string_view text, int number) {
    std::uint32_t node = 0;
    for (const char c : text) {
      node = next_of(node, c);
      if (node == 0) return;
    }
    if (numbers_[node] == number) numbers_[node] = kNone;
  }

  // Calls f(bytes, number) for each text with which this one begins, from the shortest to the longest.
  template <class F>
  void each_prefix(std::string_view text, const F& f) const {
    std::uint32_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      node = next_of(node, text[at]);
      if (node == 0) return;
      if (numbers_[node] != kNone) f(at + 1, numbers_[node]);
    }
  }

  // The bytes and the number of the longest; no bytes if there is none.
  std::pair<std::size_t, int> longest(std::string_view text) const {
    std::pair<std::size_t, int> found{0, kNone};
    each_prefix(text, [&](std::size_t size, int number) { found = {size, number}; });
    return found;
  }

 private:
  static constexpr int kNone = -1;

  static std::uint64_t key_of(std::uint32_t node, char c) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
  }
  std::uint32_t next_of(std::uint32_t node, char c) const {
    if (node == 0) return roots_[static_cast<unsigned char>(c)];
    const std::uint32_t* const found = children_.find(key_of(node, c));
    return found ? *found : 0;
  }
  std::uint32_t node_behind(std::uint32_t node, char c) {
    const auto made = static_cast<std::uint32_t>(numbers_.size());
    std::uint32_t& next = node == 0 ? roots_[static_cast<unsigned char>(c)] : *children_.add(key_of(node, c), 0).first;
    if (next == 0) {
      next = made;
      numbers_.push_back(kNone);
    }
    return next;
  }

  std::array<std::uint32_t, 256> roots_;  // most texts have few beginnings, and these are looked for everywhere
  FlatMap<std::uint32_t> children_;
  std::vector<int> numbers_ = {kNone};  // of each node
};

}  // namespace SEPPO_ABI
}  // namespace seppo
