// Snapshot: restores parameters, so that a computation can be repeated, such as a loss at values that move a little.
//
//   Snapshot state(parameters, "during my measurement");
//   for (const real change : {-0.1F, 0.1F}) {
//     state.restore()[0] += change;
//     std::cout << loss().item() << "\n";
//   }                                        // values, gradients and tape().random are as before once it is destroyed
#pragma once

#include "../autograd/core/tape.h"
#include "parameters.h"

#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class Snapshot {
 public:
  // Clears the tape. While it lives, no parameters can be added to `parameters`; `when` ends the error's message.
  // Throws StateError during backward.
  Snapshot(Parameters& parameters, const char* when);
  // Restores values, buffers, gradients and tape().random, and clears the tape.
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // Restores all but gradients, which become zero. Returns the values, to be written.
  std::span<real> restore();

 private:
  Parameters& parameters_;
  std::vector<real> values_, gradients_;
  const RandomContext random_;
  const Parameters::Fixed fixed_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
