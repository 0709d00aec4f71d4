// Texts as lists of tokens, and all that there are of a small vocabulary.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace small {

using Tokens = std::vector<int>;

// Every target that ends with eos within `length` tokens, or has exactly `length` tokens and no eos.
inline std::vector<std::vector<int>> all_targets(int vocabulary, int eos, std::size_t length) {
  std::vector<std::vector<int>> done, open{{}};
  while (!open.empty()) {
    std::vector<std::vector<int>> next;
    for (const auto& prefix : open)
      for (int token = 0; token < vocabulary; ++token) {
        std::vector<int> target = prefix;
        target.push_back(token);
        (token == eos || target.size() == length ? done : next).push_back(target);
      }
    open = std::move(next);
  }
  return done;
}

}  // namespace small
