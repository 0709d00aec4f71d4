// Rows and reductions for fuzz_ops.cpp.
#pragma once

#include "fuzz/ops_machine.h"

#include <numeric>

namespace fuzz {

namespace naive = test::reference;
using test::real_part;

// ---- rows -----------------------------------------------------------------------------------------

inline void rows(Machine& m) {
  const Value& x = m.any();
  const int axis = m.axis(x.rank()), kind = m.bytes.below(4);
  if (kind == 3) {
    return m.apply(
        "causal softmax", {&x}, {fits_if(x.rank() >= 2), 0, true},
        [&] { return seppo::softmax(x.tensor, seppo::Mask::causal()); },
        [&](const auto& in) {
          auto y = in[0];
          const int queries = x.size(-2), keys = x.size(-1);
          for (std::size_t row = 0; keys > 0 && row < y.v.size() / static_cast<std::size_t>(keys); ++row) {
            const auto first = y.v.begin() + static_cast<std::ptrdiff_t>(row) * keys;
            std::vector<Scalar<decltype(in)>> values(first, first + keys);
            const int query = static_cast<int>(row) % queries;
            naive::softmax_allowed(values,
                                   [&](std::size_t j) { return static_cast<int>(j) <= query + keys - queries; });
            std::ranges::copy(values, first);
          }
          return y;
        });
  }
  if (kind == 2)
    return m.apply(
        "cumsum", {&x}, {fits_if(have_axis(x, axis)), largest(x), true}, [&] { return seppo::cumsum(x.tensor, axis); },
        [&](const auto& in) {
          return naive::along(in[0], axis, [](auto& row) { std::partial_sum(row.begin(), row.end(), row.begin()); });
        });
  m.apply(
      "softmax", {&x}, {fits_if(have_axis(x, axis)), 1e-3, true},
      [&] { return kind ? seppo::log_softmax(x.tensor, axis) : seppo::softmax(x.tensor, axis); },
      [&](const auto& in) {
        using T = Scalar<decltype(in)>;
        return naive::along(in[0], axis, [&](std::vector<T>& row) {
          double top = -std::numeric_limits<double>::infinity();
          for (const T& e : row) top = std::max(top, real_part(e));
          T total = 0;
          for (const T& e : row) total += std::exp(e - top);
          for (T& e : row) e = kind ? e - top - std::log(total) : std::exp(e - top) / total;
        });
      });
}

inline void norms(Machine& m) {
  const Value& x = m.any();
  const int kind = m.bytes.below(3), width = x.rank() ? x.size(-1) : 1;
  const Value& gain = m.like({width});
  const Value& bias = m.like({width});
  const Value& other = m.like(x.x.shape);
  const double eps = m.bytes.below(8) ? 1e-5 : -1e-5;
  const auto matches = [&](const Value& v) { return v.rank() == 1 && v.size(0) == width; };
  const bool fits = x.rank() > 0 && width > 0 && matches(gain) && eps >= 0 && (kind == 1 || matches(bias)) &&
                    (kind != 2 || other.x.shape == x.x.shape);
  const double spread = (largest(x) + (kind == 2 ? largest(other) : 0)) / std::sqrt(1e-5);
  // For values this large only rounding errors of the mean are left, and these depend on the order of summation.
  const Rule rule{spread > 1e6 && fits ? Fit::fits : fits_if(fits), largest(gain) * spread + largest(bias), true};
  m.apply(
      "norm", {&x, &gain, &bias, &other}, rule,
      [&] {
        if (kind == 0) return seppo::layer_norm(x.tensor, gain.tensor, bias.tensor, eps);
        if (kind == 1) return seppo::rms_norm(x.tensor, gain.tensor, eps);
        return seppo::add_norm(x.tensor, other.tensor, gain.tensor, bias.tensor, {.eps = eps});
      },
      [&](const auto& in) {
        using T = Scalar<decltype(in)>;
        if (kind == 0) return naive::layer_norm(in[0], in[1], in[2], eps);
        if (kind == 2)
          return naive::layer_norm(naive::zip(in[0], in[3], [](const T& a, const T& b) { return a + b; }), in[1], in[2],
                                   eps);
        return naive::along(in[0], -1, [&](std::vector<T>& row) {
          T squares = 0;
          for (const T& e : row) squares += e * e / static_cast<double>(row.size());
          for (std::size_t i = 0; i < row.size(); ++i) row[i] = row[i] / std::sqrt(squares + eps) * in[1].v[i];
        });
      });
}

// ---- reductions -----------------------------------------------------------------------------------

inline void reduce(Machine& m) {
  const Value& x = m.any();
  const int kind = m.bytes.below(6), correction = m.bytes.below(2);
  const bool keepdim = m.bytes.below(2);
  Ints chosen(static_cast<std::size_t>(m.bytes.below(4)));
  for (int& axis : chosen) axis = m.axis(x.rank());
  bool fits = true;
  Ints axes(static_cast<std::size_t>(chosen.empty() ? x.rank() : 0));
  std::iota(axes.begin(), axes.end(), 0);
  for (const int axis : chosen) {
    const int normal = axis < 0 ? axis + x.rank() : axis;
    fits = fits && have_axis(x, axis) && std::ranges::find(axes, normal) == axes.end();
    axes.push_back(normal);
  }
  std::size_t count = 1;
  if (fits)
    for (const int axis : axes) count *= static_cast<std::size_t>(x.size(axis));
  if (kind != 0 && kind != 5) fits = fits && count > (kind == 2 ? static_cast<std::size_t>(correction) : 0);
  const seppo::Axes over = chosen.empty()       ? seppo::Axes()
                           : chosen.size() == 1 ? seppo::Axes(chosen[0])
                           : chosen.size() == 2 ? seppo::Axes{chosen[0], chosen[1]}
                                                : seppo::Axes{chosen[0], chosen[1], chosen[2]};
  const double most = largest(x), n = static_cast<double>(count);
  const Rule rule{fits_if(fits),
                  kind == 2   ? most * most
                  : kind == 5 ? 1
                              : most,
                  kind == 5 || kind == 2 || kind == 1 || kind == 0};
  m.apply(
      "reduction", {&x}, rule,
      [&] {
        switch (kind) {
          case 0:
            return seppo::sum(x.tensor, over, keepdim);
          case 1:
            return seppo::mean(x.tensor, over, keepdim);
          case 2:
            return seppo::var(x.tensor, over, correction, keepdim);
          case 3:
            return seppo::amax(x.tensor, over, keepdim);
          case 4:
            return seppo::amin(x.tensor, over, keepdim);
          default:
            return seppo::logsumexp(x.tensor, over, keepdim);
        }
      },
      [&](const auto& in) {
        using T = Scalar<decltype(in)>;
        return naive::reduce(in[0], axes, keepdim, [&](const std::vector<T>& values) {
          T total = 0, best = std::numeric_limits<double>::quiet_NaN();
          double extreme = -std::numeric_limits<double>::infinity();
          const double sign = kind == 4 ? -1 : 1;
          bool has_nan = false;
          for (const T& e : values) {
            total += e;
            has_nan = has_nan || std::isnan(real_part(e));
            extreme = std::max(extreme, sign * real_part(e));
          }
          if (kind == 0) return total;
          if (kind == 1) return total / n;
          if (kind == 2) {
            T squares = 0;
            for (const T& e : values) squares += (e - total / n) * (e - total / n);
            return squares / (n - correction);
          }
          if (kind == 5) {
            if (values.empty()) return T(extreme);
            T sum = 0;
            for (const T& e : values) sum += std::exp(e - extreme);
            return std::log(sum) + extreme;
          }
          if (has_nan) return best;
          best = 0;
          double ties = 0;
          for (const T& e : values)
            if (sign * real_part(e) == extreme) best += (e - sign * extreme), ++ties;  // only slopes are added
          return std::isinf(extreme) ? T(sign * extreme) : sign * extreme + best / ties;
        });
      });
}

inline void extreme(Machine& m) {
  const Value& x = m.any();
  const int axis = m.axis(x.rank());
  const bool largest_one = m.bytes.below(2), keepdim = m.bytes.below(2);
  const bool fits = have_axis(x, axis) && x.size(axis) > 0;
  const auto place = [&](const auto& values) {  // the first NaN, or the first of the largest
    std::size_t best = 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
      const double e = real_part(values[i]), b = real_part(values[best]);
      if (!std::isnan(b) && (std::isnan(e) || (largest_one ? e > b : e < b))) best = i;
    }
    return best;
  };
  m.apply(
      "max", {&x}, {fits_if(fits)},
      [&] {
        const auto found = largest_one ? seppo::max(x.tensor, axis, keepdim) : seppo::min(x.tensor, axis, keepdim);
        const Ints again = largest_one ? seppo::argmax(x.tensor, axis) : seppo::argmin(x.tensor, axis);
        const auto expected = naive::reduce(x.x, {axis < 0 ? axis + x.rank() : axis}, false,
                                            [&](const auto& values) { return static_cast<double>(place(values)); });
        fuzz::require(found.indices == again, "max and argmax differ");
        fuzz::require(std::ranges::equal(again, expected.v), "the largest is at another place");
        return found.values;
      },
      [&](const auto& in) {
        return naive::reduce(in[0], {axis < 0 ? axis + x.rank() : axis}, keepdim,
                             [&](const auto& values) { return values[place(values)]; });
      });
}

}  // namespace fuzz
