// Beam search for a Transformer or any other StepModel and, as a beam of one, greedy decoding.
//
//   const auto found = beam_search(model, src, {.bos = 1, .eos = 2, .max_length = 20, .n_best = 2});
//   const std::vector<int>& best = found[0][0].tokens;
#pragma once

#include "../transformer.h"
#include "hooks.h"
#include "step_model.h"

#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct BeamOptions {
  int bos = 0, eos = 0;  // the token that starts a target of a Transformer, and the one that ends a text
  int max_length = 64;   // tokens to generate at most, the end token included
  // Of the sources' tokens, as Transformer::encode() takes them; the targets' are 0, 1, 2 ...
  std::span<const int> src_positions = {};
  int beam = 4;    // targets followed for each source
  int n_best = 1;  // of them returned, at most `beam`
  // alpha in score = log p / ((5 + length) / 6)^alpha (Wu et al. 2016, section 7): more prefers longer targets
  double length_penalty = 0.6;
  // Changes the model's scores. What it adds to a token's is added to log p: the search is for the best sum of both,
  // and, if the hook only bans, for the likeliest of the targets that are left.
  ScoreHook hook = {};

  void validate() const;
};

struct Hypothesis {
  std::vector<int> tokens;     // without bos, with eos if it was reached
  double log_probability = 0;  // of all tokens, given the source: the model's, without the hook
  double score = 0;
  std::vector<double> token_log_probabilities = {};  // of each token, after those before
};

// The best targets found for each source, all different, in order of decreasing score. At each step the best
// continuations of a source's targets fill its beam; a target that ends keeps its place. A beam of one is greedy
// decoding; one wide enough for every target finds the best. Ties go to the target that was better before, then to the
// lowest id. A target is dropped if all its continuations have a probability of zero or are banned, so that a hook may
// leave a source without targets. `on_token` is told the best target of each source: a token as soon as all targets of
// the beam have it, and the rest at the end. Throws ArgumentError for options out of range, NumericError for scores
// that are not finite.
std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Ragged& src,
                                                 const BeamOptions& options, const OnToken& on_token = {});

// The same for any model. A target continues its start, such as BOS or the prompt of a language model, which it does
// not contain. Throws StateError in Mode::train, ShapeError for an empty start and for scores that are not
// [texts, vocabulary], ArgumentError if a target may outgrow the model's window.
std::vector<std::vector<Hypothesis>> beam_search(const StepModel& steps, const Ragged& starts,
                                                 const BeamOptions& options, const OnToken& on_token = {});

// A target for each source: at each step the most probable token, as with a beam of one; ties go to the lowest id.
// Without `bos`, and with `eos` if it was reached. Nothing is recorded on the tape. Throws ArgumentError if max_length
// is beyond the model's or the hook bans all tokens, NumericError for scores that are not finite.
std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, BeamOptions options,
                                            const OnToken& on_token = {});

// The decoder, the encoder's output for the sources at these offsets, and an empty cache of as many targets. Refers to
// the model, the offsets and the cache.
StepModel step_model(const Transformer& model, const Tensor& memory, Offsets memory_offsets, KeyValueCache& cache);

}  // namespace SEPPO_ABI
}  // namespace seppo
