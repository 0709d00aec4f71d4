// Vocabulary: tokens by id, and ids by token.
#include "vocabulary.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

namespace seppo {
inline namespace SEPPO_ABI {

Vocabulary::Vocabulary(std::span<const std::string> tokens) : tokens_(tokens.begin(), tokens.end()) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    check<ArgumentError>(!tokens_[i].empty(), "vocabulary: token ", i, " is empty");
    check<ArgumentError>(ids_.emplace(tokens_[i], static_cast<int>(i)).second, "vocabulary: token ",
                         printable(tokens_[i]), " is there twice");
  }
}

int Vocabulary::id(std::string_view token) const {
  const auto found = ids_.find(token);
  check<IndexError>(found != ids_.end(), "vocabulary: unknown token '", printable(token), "'");
  return found->second;
}

const std::string& Vocabulary::token(int id) const {
  check<IndexError>(id >= 0 && id < size(), "vocabulary: id ", id, " is not in 0..", size() - 1);
  return tokens_[static_cast<std::size_t>(id)];
}

std::string Vocabulary::text(std::span<const int> ids) const {
  std::string text;
  for (const int id : ids) {
    if (!text.empty()) text += ' ';
    text += token(id);
  }
  return text;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
