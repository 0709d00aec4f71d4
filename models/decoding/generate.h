// Texts of a LanguageModel, token by token.
#pragma once

#include "../language_model.h"
#include "sampling.h"

#include <functional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct GenerateOptions {
  int max_tokens = 64;  // to generate for each prompt, the stop token included
  SamplingOptions sampling = {};
  std::vector<int> stop = {};  // the tokens that end a text
  // In a text longer than the model's max_length, the model sees a sliding window: the last tokens, whose positions
  // count from the beginning of the window. A full window advances by `stride` tokens, and its contents are recomputed.
  // With 1, each token has as much context as possible; a larger stride is faster.
  int stride = 1;
  std::uint64_t seed = 0;
};

// Called with each token as soon as it is drawn, and the index of its prompt.
using OnToken = std::function<void(std::size_t prompt, int token)>;

// The continuation of each prompt, without the prompt and with the stop token if one was reached. Prompt i draws from
// the random stream (seed, Purpose::sampling, i), so that texts depend neither on each other nor on the number of
// threads. Nothing is recorded on the tape. Throws ArgumentError for options out of range, ShapeError for an empty
// prompt, NumericError for scores that are not finite.
std::vector<std::vector<int>> generate(const LanguageModel& model, const Ragged& prompts,
                                       const GenerateOptions& options = {}, const OnToken& on_token = {});

}  // namespace SEPPO_ABI
}  // namespace seppo
