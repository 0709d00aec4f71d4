// The references, instantiated for double and for Complex.
#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace test::reference {

double erf(double x) { return std::erf(x); }
Complex erf(const Complex& z) {
  return {std::erf(z.real()), 2 * std::numbers::inv_sqrtpi * std::exp(-z.real() * z.real()) * z.imag()};
}

template <class T>
Nd<T> map(const Nd<T>& x, const Function<T(T)>& f) {
  Nd<T> y(x.shape);
  for (std::size_t i = 0; i < x.v.size(); ++i) y.v[i] = f(x.v[i]);
  return y;
}

template <class T>
Nd<T> zip(const Nd<T>& a, const Nd<T>& b, const Function<T(T, T)>& f) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int> shape;
  for (int axis = 0; axis < rank; ++axis) {
    const int ia = axis - rank + a.rank(), ib = axis - rank + b.rank();
    const int sa = ia < 0 ? 1 : a.size(ia), sb = ib < 0 ? 1 : b.size(ib);
    shape.push_back(sa == 1 ? sb : sa);
  }
  const auto pick = [&](const Nd<T>& x, const std::vector<int>& index) {
    std::vector<int> own;
    for (int axis = 0; axis < x.rank(); ++axis)
      own.push_back(x.size(axis) == 1 ? 0 : index[static_cast<std::size_t>(axis + rank - x.rank())]);
    return x(own);
  };
  Nd<T> y(shape);
  each_index(shape, [&](const std::vector<int>& index) { y(index) = f(pick(a, index), pick(b, index)); });
  return y;
}

template <class T>
Nd<T> matmul(const Nd<T>& a, const Nd<T>& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int> shape(static_cast<std::size_t>(rank));
  for (int axis = 0; axis < rank - 2; ++axis) {
    const int ia = axis - rank + a.rank(), ib = axis - rank + b.rank();
    const int sa = ia < 0 ? 1 : a.size(ia), sb = ib < 0 ? 1 : b.size(ib);
    shape[static_cast<std::size_t>(axis)] = sa == 1 ? sb : sa;
  }
  shape[static_cast<std::size_t>(rank - 2)] = a.size(-2);
  shape[static_cast<std::size_t>(rank - 1)] = b.size(-1);
  Nd<T> y(shape);
  each_index(shape, [&](const std::vector<int>& index) {
    const auto at = [&](const Nd<T>& x, int row, int col) {
      std::vector<int> own;
      for (int axis = 0; axis < x.rank() - 2; ++axis)
        own.push_back(x.size(axis) == 1 ? 0 : index[static_cast<std::size_t>(axis + rank - x.rank())]);
      own.push_back(row);
      own.push_back(col);
      return x(own);
    };
    T total = 0;
    for (int k = 0; k < a.size(-1); ++k) total += at(a, index[index.size() - 2], k) * at(b, k, index.back());
    y(index) = total;
  });
  return y;
}

template <class T>
Nd<T> permute(const Nd<T>& x, const std::vector<int>& axes) {
  std::vector<int> shape;
  for (const int axis : axes) shape.push_back(x.size(axis));
  Nd<T> y(shape);
  each_index(shape, [&](const std::vector<int>& index) {
    std::vector<int> own(index.size());
    for (std::size_t i = 0; i < axes.size(); ++i) own[static_cast<std::size_t>(axes[i])] = index[i];
    y(index) = x(own);
  });
  return y;
}

template <class T>
Nd<T> along(const Nd<T>& x, int axis, const Function<void(std::vector<T>&)>& f) {
  const auto a = static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis);
  Nd<T> y(x.shape);
  std::vector<int> rest = x.shape;
  rest[a] = 1;
  if (x.v.empty()) return y;
  each_index(rest, [&](std::vector<int> index) {
    std::vector<T> row;
    for (index[a] = 0; index[a] < x.shape[a]; ++index[a]) row.push_back(x(index));
    f(row);
    for (index[a] = 0; index[a] < x.shape[a]; ++index[a]) y(index) = row[static_cast<std::size_t>(index[a])];
  });
  return y;
}

template <class T>
Nd<T> reduce(const Nd<T>& x, const std::vector<int>& axes, bool keepdim, const Function<T(const std::vector<T>&)>& f) {
  const auto is_reduced = [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  std::vector<int> kept, dropped;
  for (int axis = 0; axis < x.rank(); ++axis) {
    kept.push_back(is_reduced(axis) ? 1 : x.size(axis));
    if (!is_reduced(axis)) dropped.push_back(x.size(axis));
  }
  Nd<T> y(kept);
  each_index(kept, [&](const std::vector<int>& index) {
    std::vector<T> values;
    each_index(x.shape, [&](const std::vector<int>& own) {
      for (int axis = 0; axis < x.rank(); ++axis)
        if (!is_reduced(axis) && own[static_cast<std::size_t>(axis)] != index[static_cast<std::size_t>(axis)]) return;
      values.push_back(x(own));
    });
    y(index) = f(values);
  });
  if (!keepdim) y.shape = dropped;
  return y;
}

template <class T>
Nd<T> pick(const Nd<T>& x, const std::vector<int>& shape,
           const std::function<std::vector<int>(const std::vector<int>&)>& f) {
  Nd<T> y(shape);
  each_index(shape, [&](const std::vector<int>& index) { y(index) = x(f(index)); });
  return y;
}

template <class T>
void softmax_allowed(std::vector<T>& row, const std::function<bool(std::size_t)>& allowed) {
  double top = -1e300;
  for (std::size_t j = 0; j < row.size(); ++j)
    if (allowed(j)) top = std::max(top, real_part(row[j]));
  T total = 0;
  for (std::size_t j = 0; j < row.size(); ++j)
    if (allowed(j)) total += std::exp(row[j] - top);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = allowed(j) ? std::exp(row[j] - top) / total : T(0);
}
template <class T>
void softmax(std::vector<T>& row) {
  softmax_allowed(row, [](std::size_t) { return true; });
}

template <class T>
Nd<T> layer_norm(const Nd<T>& x, const Nd<T>& gain, const Nd<T>& bias, double eps) {
  return along(x, -1, [&](std::vector<T>& row) {
    T mean = 0, variance = 0;
    const double n = static_cast<double>(row.size());
    for (const T& e : row) mean += e / n;
    for (const T& e : row) variance += (e - mean) * (e - mean) / n;
    for (std::size_t j = 0; j < row.size(); ++j)
      row[j] = (row[j] - mean) / std::sqrt(variance + eps) * gain.v[j] + bias.v[j];
  });
}

template <class T>
void attention(Nd<T>& out, const Nd<T>& q, const Nd<T>& k, const Nd<T>& v, int q0, int q1, int k0, int k1, int col,
               int width, const std::function<bool(int, int)>& allowed) {
  for (int i = q0; i < q1; ++i) {
    std::vector<T> scores;
    for (int j = k0; j < k1; ++j) {
      T dot = 0;
      for (int c = col; c < col + width; ++c) dot += q({i, c}) * k({j, c});
      scores.push_back(dot / std::sqrt(static_cast<double>(width)));
    }
    softmax_allowed(scores, [&](std::size_t j) { return allowed(i - q0, static_cast<int>(j)); });
    for (int c = col; c < col + width; ++c)
      for (int j = k0; j < k1; ++j) out({i, c}) += scores[static_cast<std::size_t>(j - k0)] * v({j, c});
  }
}

template <class T>
T cross_entropy(const Nd<T>& logits, const std::vector<int>& targets, double smoothing, int ignored, bool mean) {
  T total = 0;
  int count = 0;
  const int classes = logits.size(-1);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    T sum = 0;
    for (int j = 0; j < classes; ++j)
      sum += std::exp(logits.v[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(j)]);
    for (int j = 0; j < classes; ++j) {
      const double weight = (j == targets[i] ? 1 - smoothing : 0) + smoothing / classes;
      total -= weight * (logits.v[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(j)] - std::log(sum));
    }
    ++count;
  }
  return mean && count > 0 ? total / static_cast<double>(count) : total;
}

template Nd<double> map(const Nd<double>&, const Function<double(double)>&);
template Nd<double> zip(const Nd<double>&, const Nd<double>&, const Function<double(double, double)>&);
template Nd<double> matmul(const Nd<double>&, const Nd<double>&);
template Nd<double> permute(const Nd<double>&, const std::vector<int>&);
template Nd<double> along(const Nd<double>&, int, const Function<void(std::vector<double>&)>&);
template Nd<double> reduce(const Nd<double>&, const std::vector<int>&, bool,
                           const Function<double(const std::vector<double>&)>&);
template Nd<double> pick(const Nd<double>&, const std::vector<int>&,
                         const std::function<std::vector<int>(const std::vector<int>&)>&);
template void softmax_allowed(std::vector<double>&, const std::function<bool(std::size_t)>&);
template void softmax(std::vector<double>&);
template Nd<double> layer_norm(const Nd<double>&, const Nd<double>&, const Nd<double>&, double);
template void attention(Nd<double>&, const Nd<double>&, const Nd<double>&, const Nd<double>&, int, int, int, int, int,
                        int, const std::function<bool(int, int)>&);
template double cross_entropy(const Nd<double>&, const std::vector<int>&, double, int, bool);

template Nd<Complex> map(const Nd<Complex>&, const Function<Complex(Complex)>&);
template Nd<Complex> zip(const Nd<Complex>&, const Nd<Complex>&, const Function<Complex(Complex, Complex)>&);
template Nd<Complex> matmul(const Nd<Complex>&, const Nd<Complex>&);
template Nd<Complex> permute(const Nd<Complex>&, const std::vector<int>&);
template Nd<Complex> along(const Nd<Complex>&, int, const Function<void(std::vector<Complex>&)>&);
template Nd<Complex> reduce(const Nd<Complex>&, const std::vector<int>&, bool,
                            const Function<Complex(const std::vector<Complex>&)>&);
template Nd<Complex> pick(const Nd<Complex>&, const std::vector<int>&,
                          const std::function<std::vector<int>(const std::vector<int>&)>&);
template void softmax_allowed(std::vector<Complex>&, const std::function<bool(std::size_t)>&);
template void softmax(std::vector<Complex>&);
template Nd<Complex> layer_norm(const Nd<Complex>&, const Nd<Complex>&, const Nd<Complex>&, double);
template void attention(Nd<Complex>&, const Nd<Complex>&, const Nd<Complex>&, const Nd<Complex>&, int, int, int, int,
                        int, int, const std::function<bool(int, int)>&);
template Complex cross_entropy(const Nd<Complex>&, const std::vector<int>&, double, int, bool);

}  // namespace test::reference
