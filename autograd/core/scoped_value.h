// ScopedValue: gives a variable another value for the length of a scope.
#pragma once

#include "real.h"

#include <utility>

namespace seppo::inline SEPPO_ABI {

template <class T>
class ScopedValue {
 public:
  ScopedValue(T& variable, T value) : variable_(variable), previous_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(previous_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& variable_;
  T previous_;
};

}  // namespace seppo::inline SEPPO_ABI
