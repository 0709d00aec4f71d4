// ScopedValue: gives a variable another value for the duration of a scope.
//
//   const ScopedValue<bool> running(is_running, true);  // false again at the end of the block
#pragma once

#include "real.h"

#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

template <class T>
class ScopedValue {
 public:
  ScopedValue(T& variable, T value) : variable_(variable), previous_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(previous_); }
  ScopedValue(const ScopedValue&) = delete;

 private:
  T& variable_;
  T previous_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
