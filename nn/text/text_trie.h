// A set of texts, each with a number, of which the longest that begins somewhere is found byte by byte.
#pragma once

#include "../../autograd/core/real.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
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
    for (const char c : text) {
      std::uint32_t& next = node == 0 ? roots_[static_cast<unsigned char>(c)] : children_[key_of(node, c)];
      if (next == 0) {
        next = static_cast<std::uint32_t>(numbers_.size());
        numbers_.push_back(kNone);
      }
      node = next;
    }
    if (node > 0 && numbers_[node] == kNone) numbers_[node] = number;
  }

  // The bytes and the number of the longest text with which this one begins; no bytes if there is none.
  std::pair<std::size_t, int> longest(std::string_view text) const {
    std::pair<std::size_t, int> found{0, kNone};
    std::uint32_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      node = next_of(node, text[at]);
      if (node == 0) break;
      if (numbers_[node] != kNone) found = {at + 1, numbers_[node]};
    }
    return found;
  }

 private:
  static constexpr int kNone = -1;

  static std::uint64_t key_of(std::uint32_t node, char c) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
  }
  std::uint32_t next_of(std::uint32_t node, char c) const {
    if (node == 0) return roots_[static_cast<unsigned char>(c)];
    const auto found = children_.find(key_of(node, c));
    return found == children_.end() ? 0 : found->second;
  }

  std::array<std::uint32_t, 256> roots_;  // most texts have few beginnings, and these are looked for everywhere
  std::unordered_map<std::uint64_t, std::uint32_t> children_;
  std::vector<int> numbers_ = {kNone};  // of each node
};

}  // namespace SEPPO_ABI
}  // namespace seppo
