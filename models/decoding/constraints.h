// Constraints on what may be written next, for use within a ScoreHook (hooks.h); several can follow each other.
//
//   const auto texts = generate(model, prompts, {.hook = [&](std::span<real> scores, std::span<const int> text) {
//     ban_tokens(scores, {unknown});
//     ban_repeated_ngrams(scores, text, 3);
//   }});
//
// A prefix is forced, and a grammar obeyed, by keep_tokens with those that the text so far allows (docs/generation.md).
#pragma once

#include "../../autograd/core/list.h"
#include "../../autograd/core/real.h"

#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// Sets the scores of these tokens to minus infinity. Throws IndexError for a token that has no score.
void ban_tokens(std::span<real> scores, List<int> tokens);

// Sets the scores of all other tokens to minus infinity. Throws IndexError for a token that has no score.
void keep_tokens(std::span<real> scores, List<int> tokens);

// Bans each token that would complete n tokens in a row that the text contains already (Paulus et al. 2018). Throws
// ArgumentError if n is not positive.
void ban_repeated_ngrams(std::span<real> scores, std::span<const int> text, int n);

}  // namespace SEPPO_ABI
}  // namespace seppo
