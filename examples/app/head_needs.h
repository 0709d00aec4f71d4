// What a trained network does without one of its attention heads, for the report page.
#pragma once

#include <seppo/autograd/core/function_ref.h>
#include <seppo/nn/parameters.h>

#include <nlohmann/json.hpp>

namespace examples {

// Switches off each head in turn, so that its output is zero, and scores the network: {"whole": score with all heads,
// "without": {"encoder.0.self_attn": [score without head 0, ...], ...}}. Every attention has this many heads. The
// parameters are the same bytes afterwards, also if `score` throws.
nlohmann::json scores_without_heads(seppo::Parameters& parameters, int heads, seppo::FunctionRef<double()> score);

}  // namespace examples
