// Text from a language model, token by token.
#pragma once

#include "../language_model.h"
#include "sampling.h"

#include <functional>
#include <vector>

namespace seppo::inline SEPPO_ABI {

struct GenerateOptions {
  int max_tokens = 64;  // to generate for each prompt, the stop token included
  SamplingOptions sampling = {};
  std::vector<int> stop = {};  // the tokens that end a text
  // A text longer than the model's max_length is seen through a sliding window: its last tokens, whose positions are
  // counted from the beginning of the window. When the window is full it moves on by `stride` tokens and what it holds
  // is computed again. 1: the next token always follows as many tokens as possible. More is faster.
  int stride = 1;
  std::uint64_t seed = 0;
};

// Called with each token as soon as it is drawn, and the index of its prompt.
using OnToken = std::function<void(std::size_t prompt, int token)>;

// The continuation of each prompt, without the prompt and with the stop token if one was reached. Prompt i draws from
// the random stream (seed, Purpose::sampling, i), so that texts do not depend on each other, nor on the number of
// threads. Nothing is recorded on the tape. Throws ArgumentError for options out of range, ShapeError for an empty
// prompt, NumericError for scores that are not finite.
std::vector<std::vector<int>> generate(const LanguageModel& model, const Ragged& prompts,
                                       const GenerateOptions& options = {}, const OnToken& on_token = {});

}  // namespace seppo::inline SEPPO_ABI
