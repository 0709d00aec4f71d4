// Nd: an array for the tests' own naive references. Written with loops only, independent of the
// library, and templated on the scalar: with std::complex<double>, a reference also yields derivatives
// by the complex step (Squire and Trapp 1998).
#pragma once

#include <complex>
#include <cstddef>
#include <functional>
#include <vector>

namespace test {

using Complex = std::complex<double>;

template <class T>
struct Nd {
  std::vector<int> shape;
  std::vector<T> v;

  Nd() = default;
  explicit Nd(std::vector<int> s) : shape(std::move(s)), v(count(shape)) {}

  static std::size_t count(const std::vector<int>& shape) {
    std::size_t n = 1;
    for (const int size : shape) n *= static_cast<std::size_t>(size);
    return n;
  }
  int rank() const { return static_cast<int>(shape.size()); }
  int size(int axis) const { return shape[static_cast<std::size_t>(axis < 0 ? axis + rank() : axis)]; }

  std::size_t offset(const std::vector<int>& index) const {
    std::size_t o = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      o = o * static_cast<std::size_t>(shape[axis]) + static_cast<std::size_t>(index[axis]);
    return o;
  }
  T& operator()(const std::vector<int>& index) { return v[offset(index)]; }
  const T& operator()(const std::vector<int>& index) const { return v[offset(index)]; }
};

// Calls f(index) for every index of a shape, row-major.
void each_index(const std::vector<int>& shape, const std::function<void(const std::vector<int>&)>& f);

inline double real_part(double x) { return x; }
inline double real_part(const Complex& x) { return x.real(); }

}  // namespace test
