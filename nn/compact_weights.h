// A model's weights in less memory, for decoding and evaluation, which then take less time too.
//
//   compact_weights(parameters, WeightFormat::q8);
//   const auto texts = generate(model, prompts);
#pragma once

#include "../autograd/core/compact_matrix.h"
#include "parameters.h"

namespace seppo {
inline namespace SEPPO_ABI {

// Keeps the matrices called "weight", those of Linear and Embedding, in this format from now on; `full` changes
// nothing. All parameters are frozen. Only linear(), embedding() and linear_cross_entropy() read compact weights,
// forward: whatever else asks for their values, such as backward, saving and merging adapters, throws StateError, and
// in Parameters::values() they are zero. Throws NumericError naming a weight that is not finite, StateError if the
// weights are compact already.
void compact_weights(Parameters& parameters, WeightFormat format);

}  // namespace SEPPO_ABI
}  // namespace seppo
