// Text from a language model, token by token, each drawn from the model's scores.
#pragma once

#include "../language_model.h"

#include <functional>
#include <vector>

namespace seppo::inline SEPPO_ABI {

// Applied in this order. Throw ArgumentError unless 0 <= temperature < infinity, 0 < repetition_penalty < infinity,
// top_k >= 0, 0 < top_p <= 1 and 0 <= min_p <= 1.
struct SamplingOptions {
  // Scores of the tokens that the text has already are divided by it where they are positive and multiplied where they
  // are negative (Keskar et al. 2019, section 4.1); 1 changes nothing.
  double repetition_penalty = 1;
  double temperature = 1;  // scores are divided by it; 0 takes the best token
  int top_k = 0;           // only the k most probable tokens; 0: all
  double top_p = 1;        // only the most probable tokens that together reach this probability (Holtzman et al. 2019)
  double min_p = 0;        // only tokens that have this share of the best one's probability (Nguyen et al. 2024)
};

// A token drawn from softmax(scores / temperature), restricted as the options say; `text` is what is there so far.
// Ties go to the lowest id. Throws NumericError for scores that are NaN, or if none, or an infinite one, is the best;
// IndexError for a token of the text without a score.
int sample_token(std::span<const real> scores, const SamplingOptions& options, RandomStream& random,
                 std::span<const int> text = {});

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
