// Extremes of numbers that may be equal, for references.
#pragma once

#include "support/nd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace test {

// The largest, or for sign -1 the smallest. Equal ones share the slope, and NaN propagates.
template <class T>
T extreme_of(const std::vector<T>& v, double sign) {
  double best = -std::numeric_limits<double>::infinity();
  for (const T& e : v) {
    if (std::isnan(real_part(e))) return T(real_part(e));
    best = std::max(best, sign * real_part(e));
  }
  if (std::isinf(best)) return T(sign * best);
  T slopes = 0;
  double equal = 0;
  for (const T& e : v)
    if (sign * real_part(e) == best) {
      slopes += e - sign * best;
      ++equal;
    }
  return sign * best + slopes / equal;
}

}  // namespace test
