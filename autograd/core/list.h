// List: what a function takes as a braced list, an array, a vector or a span.
#pragma once

#include "real.h"

#include <initializer_list>
#include <span>

namespace seppo::inline SEPPO_ABI {

// Refers to the elements, which must outlive the call.
template <class T>
struct List : std::span<const T> {
  using std::span<const T>::span;
  List(std::span<const T> values) : std::span<const T>(values) {}
  List(std::initializer_list<T> values) : std::span<const T>(values.begin(), values.size()) {}
};

}  // namespace seppo::inline SEPPO_ABI
