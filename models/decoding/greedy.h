// Greedy decoding: the most probable next token, again and again; a beam of one.
#pragma once

#include "beam.h"

#include <vector>

namespace seppo::inline SEPPO_ABI {

struct GreedyOptions {
  int bos = 0, eos = 0;  // the token that starts a target, and the one that ends it
  int max_length = 64;   // tokens to generate at most, the end token included
};

// A target for each source: at each step the most probable token; ties go to the lowest id. Without `bos`, and with
// `eos` if it was reached. Nothing is recorded on the tape. Throws ArgumentError if max_length is beyond the model's,
// NumericError for scores that are not finite.
inline std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src,
                                                   const GreedyOptions& o) {
  std::vector<std::vector<int>> targets;
  for (auto& found : beam_search(model, src, {.bos = o.bos, .eos = o.eos, .max_length = o.max_length, .beam = 1}))
    targets.push_back(std::move(found[0].tokens));
  return targets;
}

}  // namespace seppo::inline SEPPO_ABI
