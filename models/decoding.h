// Decoding. Transformer: beam search and, as a beam of one, greedy decoding. LanguageModel: sampling, token by token.
#pragma once

#include "language_model.h"
#include "transformer.h"

#include <functional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct BeamOptions {
  int bos = 0, eos = 0;  // the token that starts a target, and the one that ends it
  int max_length = 64;   // tokens to generate at most, the end token included
  int beam = 4;          // targets followed for each source
  int n_best = 1;        // of them returned, at most `beam`
  // alpha in score = log p / ((5 + length) / 6)^alpha (Wu et al. 2016, section 7): more prefers longer targets
  double length_penalty = 0.6;
};

struct Hypothesis {
  std::vector<int> tokens;     // without bos, with eos if it was reached
  double log_probability = 0;  // of all tokens, given the source
  double score = 0;
};

// The best targets found for each source, all different, in order of decreasing score. At each step the best
// continuations of a source's targets fill its beam; a target that ends keeps its place. A beam of one is greedy
// decoding; one wide enough for every target finds the best. Ties go to the target that was better before, then to the
// lowest id. Throws ArgumentError for options out of range, NumericError for scores that are not finite.
std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Ragged& src,
                                                 const BeamOptions& options);

// A target for each source: at each step the most probable token, as with a beam of one; ties go to the lowest id.
// Without `bos`, and with `eos` if it was reached. Nothing is recorded on the tape. Throws ArgumentError if max_length
// is beyond the model's, NumericError for scores that are not finite.
inline std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, BeamOptions options) {
  options.beam = options.n_best = 1;
  std::vector<std::vector<int>> targets;
  for (auto& found : beam_search(model, src, options)) targets.push_back(std::move(found[0].tokens));
  return targets;
}

// ---- texts of a language model

// Applied in this order. Throw ArgumentError unless 0 <= temperature < infinity, 0 < repetition_penalty < infinity,
// top_k >= 0, 0 < top_p <= 1 and 0 <= min_p <= 1.
struct SamplingOptions {
  // Divides positive scores of tokens of the text, and multiplies negative ones (Keskar et al. 2019); 1: no change.
  double repetition_penalty = 1;
  double temperature = 1;  // scores are divided by it; 0 takes the best token
  int top_k = 0;           // only the k most probable tokens; 0: all
  double top_p = 1;        // only the most probable tokens that together reach this probability (Holtzman et al. 2019)
  double min_p = 0;        // only tokens that have this share of the best one's probability (Nguyen et al. 2024)
};

// A token drawn from softmax(scores / temperature), restricted as the options say; `text` is the text so far. Ties go
// to the lowest id. Throws NumericError for NaN, or if the largest score is infinite; ShapeError for no scores; with a
// repetition penalty, IndexError for a token of the text that has no score.
int sample_token(std::span<const real> scores, const SamplingOptions& options, RandomStream& random,
                 std::span<const int> text = {});

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
