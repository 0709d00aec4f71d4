// What the standard library lacks: FunctionRef, List, ScopedValue; and Kernel, a function whose best version for this
// processor is chosen at run time.
#pragma once

#include "real.h"

#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

template <class Signature>
class FunctionRef;

// A reference to a callable, valid during a call; unlike std::function it never allocates.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void* object, Args... args);
};

// A function parameter that accepts a braced list, an array, a vector or a span. Refers to the elements, which must
// outlive the call.
template <class T>
struct List : std::span<const T> {
  using std::span<const T>::span;
  List(std::span<const T> values) : std::span<const T>(values) {}
  List(std::initializer_list<T> values) : std::span<const T>(values.begin(), values.size()) {}
};

// Gives a variable another value for the duration of a scope.
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

// A function compiled once for each instruction set (Highway). A header declares it:
//   extern Kernel<void(real* y, const real* x, std::size_t n)> negate;
// A source defines it in HWY_NAMESPACE under the same name and signature, and under HWY_ONCE in the namespace of the
// declaration says SEPPO_KERNEL(negate);
template <class Signature>
using Kernel = Signature* const;

}  // namespace SEPPO_ABI
}  // namespace seppo

#define SEPPO_KERNEL(name) \
  HWY_EXPORT(name);        \
  constinit decltype(name) name = [](auto... args) -> decltype(auto) { return HWY_DYNAMIC_DISPATCH(name)(args...); }
