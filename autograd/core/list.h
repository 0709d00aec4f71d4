// List: a function parameter that accepts a braced list, an array, a vector or a span.
//
//   void f(List<int> ids);
//   f({1, 2, 3});
//   f(vector);
#pragma once

#include "real.h"

#include <initializer_list>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// Refers to the elements, which must outlive the call.
template <class T>
struct List : std::span<const T> {
  using std::span<const T>::span;
  List(std::span<const T> values) : std::span<const T>(values) {}
  List(std::initializer_list<T> values) : std::span<const T>(values.begin(), values.size()) {}
};

}  // namespace SEPPO_ABI
}  // namespace seppo
