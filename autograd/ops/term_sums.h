// Where many terms meet in one element of a gradient: beyond kMostTerms they are added in double precision, and the sum
// is rounded once.
#pragma once

#include "../core/arena.h"
#include "../core/tape.h"
#include "../kernels/kernels.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// n elements, to each of which up to `terms` terms will be added.
class TermSums {
 public:
  TermSums(real* to, std::size_t n, std::size_t terms) : to_(to), n_(n) {
    if (!to || terms <= kernels::kMostTerms) return;
    wide_.emplace(tape().arena(), n);
    std::fill_n(wide_->data(), n, 0.0);
  }

  // Calls f(where to add to element i), which is a real* or a double*.
  template <class F>
  void at(std::size_t i, const F& f) const {
    if (wide_)
      f(wide_->data() + i);
    else
      f(to_ ? to_ + i : nullptr);
  }
  // Adds a term to each of the elements [first, first + n).
  void add(std::size_t first, const real* terms, std::size_t n) const {
    if (wide_)
      kernels::axpy_wide(wide_->data() + first, terms, 1, n);
    else
      kernels::axpy(to_ + first, 1, terms, 1, n);
  }
  explicit operator bool() const { return to_ != nullptr; }

  // To be called when all terms have been added.
  void finish() const {
    for (std::size_t i = 0; wide_ && i < n_; ++i) to_[i] += static_cast<real>(wide_->data()[i]);
  }

 private:
  real* to_;
  std::size_t n_;
  std::optional<RecycledArray<double>> wide_;
};

// How many elements of y there are for each of x, which is broadcast to it.
inline std::size_t repeats(const Tensor& x, const Tensor& y) { return x.numel() == 0 ? 0 : y.numel() / x.numel(); }

// Slices of n elements, to which terms are added by index: in double precision to those with many terms.
class SliceSums {
 public:
  // `terms`: the most that can meet in one element.
  SliceSums(std::span<const int> indices, std::size_t slices, std::size_t n, std::size_t terms)
      : slices_(static_cast<int>(slices)), n_(n) {
    if (terms <= kernels::kMostTerms) return;
    place_.emplace(tape().arena(), slices);
    std::fill_n(place_->data(), slices, 0);
    for (const int index : indices) ++place_->data()[index];
    std::size_t wide = 0;
    for (std::size_t i = 0; i < slices; ++i) {
      int& place = place_->data()[i];
      place = static_cast<std::size_t>(place) > kernels::kMostTerms ? static_cast<int>(wide++) : -1;
    }
    if (wide == 0) {
      place_.reset();
      return;
    }
    wide_.emplace(tape().arena(), wide * n);
    std::fill_n(wide_->data(), wide * n, 0.0);
  }

  bool empty() const { return !place_; }  // no slice has any
  // The sums of a slice; null if its terms are to be added without them.
  double* of(int index) const {
    const int place = place_ ? place_->data()[index] : -1;
    return place < 0 ? nullptr : wide_->data() + static_cast<std::size_t>(place) * n_;
  }

  // Calls f(index, its sums) for each slice that has some.
  template <class F>
  void for_each(const F& f) const {
    for (int index = 0; place_ && index < slices_; ++index)
      if (const double* const sums = of(index)) f(index, sums);
  }

 private:
  int slices_;
  std::size_t n_;
  std::optional<RecycledArray<int>> place_;  // -1, or which of the slices in wide_
  std::optional<RecycledArray<double>> wide_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
