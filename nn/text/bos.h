// How a text begins: with the token for the beginning of a text, BOS, or without it.
//
//   encode(tokenizer, "", Bos::tokenizer, model.bos)  // an empty prompt: the model's BOS, if it has one
#pragma once

#include "tokenizer.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// As the tokenizer says, or with the model's BOS in any case, or without one.
enum class Bos { tokenizer, always, never };
inline std::span<const char* const> enum_names(Bos) {
  static constexpr const char* kNames[] = {"tokenizer", "always", "never"};
  return kNames;
}

// The tokens of a text. Where the tokenizer decides, a text that has none is begun by the model's BOS, if any. Throws
// ArgumentError if a BOS is demanded of a model that has none.
// The last two are those of Tokenizer::encode().
std::vector<int> encode(const Tokenizer& tokenizer, std::string_view text, Bos bos, std::optional<int> model_bos,
                        SpecialText special = SpecialText::letters, std::size_t* left_out = nullptr);

}  // namespace SEPPO_ABI
}  // namespace seppo
