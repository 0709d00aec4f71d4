// Naive references for the ops: one loop nest each, no library code. T is double or, for derivatives by the complex
// step, Complex.
#pragma once

#include "support/nd.h"

#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

namespace test::reference {

// A function that is passed as an argument: its type does not decide T.
template <class F>
using Function = std::type_identity_t<std::function<F>>;

// erf continued to x + i h: the error is O(h^2), and h is 1e-30.
double erf(double x);
Complex erf(const Complex& z);

template <class T>
Nd<T> map(const Nd<T>& x, const Function<T(T)>& f);

// NumPy broadcasting of two arrays.
template <class T>
Nd<T> zip(const Nd<T>& a, const Nd<T>& b, const Function<T(T, T)>& f);

template <class T>
Nd<T> matmul(const Nd<T>& a, const Nd<T>& b);

template <class T>
Nd<T> permute(const Nd<T>& x, const std::vector<int>& axes);

// f transforms the elements along an axis, passed as a vector, in place.
template <class T>
Nd<T> along(const Nd<T>& x, int axis, const Function<void(std::vector<T>&)>& f);

// Replaces the elements over the given axes, passed to f as a vector, by f's result; the axes keep size 1 or vanish.
template <class T>
Nd<T> reduce(const Nd<T>& x, const std::vector<int>& axes, bool keepdim, const Function<T(const std::vector<T>&)>& f);

// y(index) = x(f(index)) for a result of the given shape.
template <class T>
Nd<T> pick(const Nd<T>& x, const std::vector<int>& shape,
           const std::function<std::vector<int>(const std::vector<int>&)>& f);

// Softmax over the elements j for which allowed(j); the others become 0, so all do if none is allowed.
template <class T>
void softmax_allowed(std::vector<T>& row, const std::function<bool(std::size_t)>& allowed);
template <class T>
void softmax(std::vector<T>& row);

template <class T>
Nd<T> layer_norm(const Nd<T>& x, const Nd<T>& gain, const Nd<T>& bias, double eps);

// Attention for one head of one sequence, given as row ranges of matrices; allowed(i, j) tells whether
// query i may attend to key j. Adds to `out`, which has the shape of q.
template <class T>
void attention(Nd<T>& out, const Nd<T>& q, const Nd<T>& k, const Nd<T>& v, int q0, int q1, int k0, int k1, int col,
               int width, const std::function<bool(int, int)>& allowed);

template <class T>
T cross_entropy(const Nd<T>& logits, const std::vector<int>& targets, double smoothing, int ignored, bool mean);

}  // namespace test::reference
