// Wavelengths, each scaled by its own share of the factor.
#include "rotary_angles.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// The pair that turns so many times over the original length; no whole number.
double pair_that_turns(double times, int columns, double theta, double length) {
  return columns * std::log(length / (times * kTurn)) / (2 * std::log(theta));
}

// What a pair keeps of its frequency, rather than having it divided by the factor.
double kept_by_llama3(double wavelength, const RotaryScaling& s) {
  const double turns = s.original_length / (kTurn * wavelength);
  return std::clamp((turns - s.slow) / (s.fast - s.slow), 0.0, 1.0);
}

class KeptByYarn {
 public:
  KeptByYarn(int columns, double theta, const RotaryScaling& s) {
    const auto rounded = [&](double x, double whole) { return s.is_rounded ? whole : x; };
    const double first = pair_that_turns(s.fast, columns, theta, s.original_length);
    const double last = pair_that_turns(s.slow, columns, theta, s.original_length);
    first_ = std::max(rounded(first, std::floor(first)), 0.0);
    last_ = std::min(rounded(last, std::ceil(last)), columns - 1.0);
    if (first_ == last_) last_ += 0.001;  // as its authors avoid dividing by 0
  }
  double operator()(int pair) const { return 1 - std::clamp((pair - first_) / (last_ - first_), 0.0, 1.0); }

 private:
  double first_, last_;
};

void check_scaling(const RotaryScaling& s, double theta) {
  check<ArgumentError>(s.factor > 0 && std::isfinite(s.factor), "rotary angles: factor ", s.factor, " is not positive");
  check<ArgumentError>(s.length > 0 && std::isfinite(s.length), "rotary angles: length ", s.length, " is not positive");
  if (s.kind != RotaryScale::llama3 && s.kind != RotaryScale::yarn) return;
  check<ArgumentError>(s.original_length > 0 && theta > 1 && s.slow > 0 && s.slow < s.fast,
                       "rotary angles: original length ", s.original_length, ", theta ", theta,
                       ", and pairs that turn ", s.slow, " to ", s.fast, " times do not go together");
}

}  // namespace

double yarn_length(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

RotaryAngles rotary_angles(int columns, double theta, const RotaryScaling& s) {
  check<ArgumentError>(columns > 0 && columns % 2 == 0 && theta > 0, "rotary angles: ", columns,
                       " columns are no pairs, or theta ", theta, " is not positive");
  check_scaling(s, theta);
  RotaryAngles angles;
  for (int pair = 0; pair < columns / 2; ++pair)
    angles.wavelengths.push_back(std::pow(theta, static_cast<double>(2 * pair) / columns));
  if (s.kind == RotaryScale::none || s.kind == RotaryScale::dynamic) return angles;
  if (s.kind == RotaryScale::yarn) angles.length = s.length;
  for (int pair = 0; pair < columns / 2; ++pair) {
    double& wavelength = angles.wavelengths[static_cast<std::size_t>(pair)];
    double kept = 0;
    if (s.kind == RotaryScale::llama3) kept = kept_by_llama3(wavelength, s);
    if (s.kind == RotaryScale::yarn) kept = KeptByYarn(columns, theta, s)(pair);
    wavelength /= kept + (1 - kept) / s.factor;
  }
  return angles;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
