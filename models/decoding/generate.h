// Texts of a LanguageModel, or of any other StepModel, token by token.
//
//   const Ragged prompts = Ragged::of({{3, 1, 4}, {1, 5}});
//   const auto texts = generate(model, prompts, {.max_tokens = 20, .sampling = {.temperature = 0.8}});
#pragma once

#include "../language_model.h"
#include "hooks.h"
#include "sampling.h"
#include "step_model.h"

#include <cstdint>
#include <span>
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
  ScoreHook hook = {};  // changes the model's scores before sampling
};

// The continuation of each prompt, without the prompt and with the stop token if one was reached. Prompt i draws from
// the random stream (seed, Purpose::sampling, i), so that texts depend neither on each other nor on the number of
// threads. Nothing is recorded on the tape. Throws ArgumentError for options out of range and if the hook bans all
// tokens, ShapeError for an empty prompt, NumericError for scores that are not finite.
std::vector<std::vector<int>> generate(const LanguageModel& model, const Ragged& prompts,
                                       const GenerateOptions& options = {}, const OnToken& on_token = {});

// The same for any model. Throws StateError in Mode::train, ShapeError for scores that are not [texts, vocabulary].
std::vector<std::vector<int>> generate(const StepModel& steps, const Ragged& prompts,
                                       const GenerateOptions& options = {}, const OnToken& on_token = {});

// A text to write, with options of its own.
struct TextRequest {
  std::vector<int> prompt;
  GenerateOptions options = {};
};

struct GeneratedText {
  std::vector<int> tokens;  // as of generate()
  // Of each token, the log probability that the model gave it after those before: by its own scores, which neither the
  // hook nor the sampling options have changed.
  std::vector<double> log_probabilities;
  double log_probability() const;  // of all tokens, given the prompt
};

// The texts of several requests in one batch, which reads the weights once for all of them: a server answers what has
// come in meanwhile. Each has the tokens that generate() writes for its prompt alone, unless the model's scores, whose
// last bits depend on the size of the batch, decide between two tokens by less than their rounding. Throws as
// generate() does.
std::vector<GeneratedText> generate_each(const LanguageModel& model, std::span<const TextRequest> requests,
                                         const OnToken& on_token = {});
std::vector<GeneratedText> generate_each(const StepModel& steps, std::span<const TextRequest> requests,
                                         const OnToken& on_token = {});

// The model and a cache, as empty as make_cache() makes it, of as many sequences as there will be prompts. Refers to
// both.
StepModel step_model(const LanguageModel& model, KeyValueCache& cache);

}  // namespace SEPPO_ABI
}  // namespace seppo
