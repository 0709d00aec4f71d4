// summary: the modules of a model, in the order they run, with their output shapes and parameter counts.
//
//   std::cout << summary(parameters, [&] { model.logits(src, tgt); });
//
//   module                       output            parameters
//   encoder.0.self_attn.in_proj  [24,96]                3,168
//   ...
//   total                                              69,904
#pragma once

#include <seppo/nn/parameters.h>

#include <functional>
#include <string>

namespace examples {

// Runs `forward` once, without recording, in eval mode. A module's parameters include those of the modules
// within it; the total counts each once, used or not.
std::string summary(const seppo::Parameters& parameters, const std::function<void()>& forward);

}  // namespace examples
