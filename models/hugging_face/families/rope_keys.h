// The keys of rotary positions: their base, the share of a head that they turn, and how they are scaled for long texts.
// Transformers 5 writes all of it into 'rope_parameters'; earlier versions write the scaling into 'rope_scaling' and
// the rest beside it. Both are read, and both are written.
#pragma once

#include "keys.h"

#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

struct RopeKeys {
  std::string theta = "rope_theta";
  double usual_theta = 10000;
  std::string share = "partial_rotary_factor";
  double usual_share = 1;
  bool is_partial = false;  // may it be another share?
};

// Scaled as `linear`, `llama3`, `yarn` or `dynamic` say; the last means nothing within 'max_position_embeddings', which
// is all that a LanguageModel sees. Others, such as `longrope`, are refused. Needs max_length before it in the table.
Key rope(const RopeKeys& names = {});
// The same with a base of its own for layers of sliding windows, as Gemma 3 has.
Key two_ropes();

}  // namespace SEPPO_ABI
}  // namespace seppo
