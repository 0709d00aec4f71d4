// Vocabulary: the tokens a model knows, numbered from 0.
//
//   const Vocabulary letters{"a", "b", "c"};
//   letters.id("b");    // 1
//   letters.token(2);   // "c"
#pragma once

#include "../../autograd/core/real.h"

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class Vocabulary {
 public:
  Vocabulary() = default;
  // Throws ArgumentError for an empty or repeated token.
  explicit Vocabulary(std::span<const std::string> tokens);
  Vocabulary(std::initializer_list<std::string> tokens)
      : Vocabulary(std::span<const std::string>(tokens.begin(), tokens.size())) {}

  int size() const { return static_cast<int>(tokens_.size()); }
  bool contains(std::string_view token) const { return ids_.find(token) != ids_.end(); }
  int id(std::string_view token) const;    // throws IndexError for an unknown token
  const std::string& token(int id) const;  // throws IndexError if out of range
  const std::vector<std::string>& tokens() const { return tokens_; }

  std::string text(std::span<const int> ids) const;  // tokens joined by spaces

 private:
  std::vector<std::string> tokens_;
  std::map<std::string, int, std::less<>> ids_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
