// The angles by which rotary positions turn the pairs of a head's columns, also for texts longer than those that a
// model was trained on.
//
//   const RotaryScaling twice{.kind = RotaryScale::linear, .factor = 2};
//   const RotaryAngles angles = rotary_angles(/*columns=*/8, /*theta=*/10000, twice);
//   const double radians = position / angles.wavelengths[i];  // of pair i
#pragma once

#include "../../autograd/core/real.h"

#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

enum class RotaryScale {
  none,
  linear,  // all wavelengths are `factor` times as long (Chen et al. 2023)
  llama3,  // the long ones are, the short ones stay, and those between change smoothly (Llama 3.1, 2024)
  yarn,    // the same by another rule, and longer vectors (Peng et al. 2023, 3.1 to 3.4)
  dynamic  // as none, up to the length of the training; what is beyond is not computed here
};

// A pair turns original_length / (2 pi wavelength) times over the texts of the training.
struct RotaryScaling {
  RotaryScale kind = RotaryScale::none;
  double factor = 1;
  double original_length = 0;  // positions that the model was trained on
  double slow = 1;             // pairs that turn less often are scaled by the factor (low_freq_factor, beta_slow)
  double fast = 4;             // pairs that turn more often are not scaled (high_freq_factor, beta_fast)
  bool is_rounded = true;      // yarn: from a whole pair to a whole pair
  double length = 1;           // yarn: of the vectors (attention_factor)

  bool operator==(const RotaryScaling&) const = default;
};

struct RotaryAngles {
  std::vector<double> wavelengths;  // of each pair: positions per radian
  double length = 1;                // what cosines and sines are multiplied by
};

// theta^(2i / columns) for pair i, scaled. Throws ArgumentError unless columns are even and positive, and theta, the
// factor and, where it is used, the original length are positive; slow must be below fast.
RotaryAngles rotary_angles(int columns, double theta, const RotaryScaling& scaling = {});

// The length of vectors that the authors of YaRN recommend: 0.1 scale ln(factor) + 1.
double yarn_length(double factor, double scale = 1);

}  // namespace SEPPO_ABI
}  // namespace seppo
