// The options with which a text is drawn: --temperature, --top-k, --top-p, --min-p and --repetition-penalty.
#pragma once

#include <seppo/models/decoding/sampling.h>
#include <seppo/nn/config.h>

#include <string>

namespace examples {

// `unit` is what is drawn: "character".
inline void add_sampling(seppo::ConfigVisitor& v, seppo::SamplingOptions& sampling, const std::string& unit) {
  v("temperature", sampling.temperature, {0, 100},
    "below 1 sharpens the distribution, above 1 flattens it; 0 takes the most probable " + unit);
  v("top_k", sampling.top_k, {0, 1e6}, "draw among the k most probable " + unit + "s only; 0 for all");
  v("top_p", sampling.top_p, {1e-6, 1}, "draw among the most probable that together have this probability");
  v("min_p", sampling.min_p, {0, 1}, "draw among " + unit + "s that have this share of the best one's probability");
  v("repetition_penalty", sampling.repetition_penalty, {1e-3, 1e3},
    "above 1, makes " + unit + "s that already occur in the text less probable");
}

}  // namespace examples
