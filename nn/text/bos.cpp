// Removes the tokenizer's BOS, or adds the model's.
#include "bos.h"

#include "../../autograd/core/check.h"

namespace seppo {
inline namespace SEPPO_ABI {

std::vector<int> encode(const Tokenizer& tokenizer, std::string_view text, Bos bos, std::optional<int> model_bos,
                        SpecialText special, std::size_t* left_out) {
  std::vector<int> tokens = tokenizer.encode(text, special, left_out);
  if (bos == Bos::never) {
    if (tokenizer.adds_bos()) tokens.erase(tokens.begin());
    return tokens;
  }
  const bool is_missing = !tokenizer.adds_bos() && (bos == Bos::always || tokens.empty());
  if (!is_missing) return tokens;
  check<ArgumentError>(model_bos || bos != Bos::always, "the model has no token that begins a text");
  if (model_bos) tokens.insert(tokens.begin(), *model_bos);
  return tokens;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
