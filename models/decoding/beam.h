// Beam search for a Transformer and, as a beam of one, greedy decoding.
#pragma once

#include "../transformer.h"

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

  void validate() const;
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
std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, BeamOptions options);

}  // namespace SEPPO_ABI
}  // namespace seppo
