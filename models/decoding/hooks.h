// Functions of yours that decoding calls: one changes the scores of the next token, the other is told each token.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Changes the scores of the token after `text`, which is the prompt and what has been written so far; a target begins
// with what starts it. Minus infinity forbids a token (constraints.h); a number that is added makes it likelier or less
// likely. The function must depend on nothing else, since texts of a batch take turns.
using ScoreHook = std::function<void(std::span<real> scores, std::span<const int> text)>;

// Called with each token as soon as it is certain, and the index of its prompt or source.
using OnToken = std::function<void(std::size_t prompt, int token)>;

// The scores as the hook changes them, in `changed`; without a hook, the scores themselves. Throws NumericError if it
// makes one NaN or plus infinity. `who` begins the message.
std::span<const real> apply_hook(const ScoreHook& hook, std::span<const real> scores, std::span<const int> text,
                                 std::vector<real>& changed, const char* who);

}  // namespace SEPPO_ABI
}  // namespace seppo
