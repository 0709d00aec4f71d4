// Central differences of gradients, extrapolated.
#include "second_derivatives.h"

#include "../autograd/ops.h"
#include "snapshot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <valarray>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using Vector = std::valarray<double>;

constexpr double kShrink = 2;  // a step is so many times smaller than the one before

double length(const Vector& x) { return std::sqrt(std::inner_product(begin(x), end(x), begin(x), 0.0)); }

// Richardson's tableau, and Ridders' choice of its best entry.
class Extrapolation {
 public:
  // Takes the central difference for the next step.
  void add(Vector difference, double rounding) {
    std::vector<Vector> row{std::move(difference)};
    double power = 1;
    for (const Vector& before : row_) {
      const Vector& last = row.back();
      power *= kShrink * kShrink;
      Vector next = last + (last - before) / (power - 1);
      // Differences may all be rounded to the same number, 0 for example: then it is no better than their rounding.
      const double change = std::max({length(next - last), length(next - before), rounding});
      if (change < error_) {
        error_ = change;
        best_ = next;
      }
      row.push_back(std::move(next));
    }
    row_ = std::move(row);
  }

  const Vector& best() const { return best_; }  // empty if there is none
  double error() const { return error_; }

 private:
  std::vector<Vector> row_;  // of the last step; entry k has an error of order h^(2k + 2)
  Vector best_;
  double error_ = std::numeric_limits<double>::infinity();
};

// `v` where there are trained parameters, 0 elsewhere; and the largest elements of both there.
struct Displacement {
  std::vector<real> v;
  double largest_value = 0;
  double largest = 0;  // of v
};

Displacement displacement_of(const Parameters& parameters, std::span<const real> v) {
  const std::span<const real> values = parameters.values();
  Displacement d{.v = std::vector<real>(v.size())};
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (!entry.trained) continue;
    for (std::size_t i = entry.offset; i < entry.offset + entry.size(); ++i) {
      d.v[i] = v[i];
      d.largest_value = std::max(d.largest_value, std::abs(double{values[i]}));
      d.largest = std::max(d.largest, std::abs(double{v[i]}));
    }
  }
  return d;
}

}  // namespace

SecondDerivative differentiate_gradient(Parameters& parameters, const std::function<Tensor(double h)>& loss,
                                        double first_step) {
  constexpr int kSteps = 24;
  Snapshot state(parameters, "during a gradient check");
  const auto gradient_at = [&](double h) {
    state.restore();
    tape().backward(loss(h));
    Vector gradient(parameters.gradients().size());
    std::ranges::copy(parameters.gradients(), begin(gradient));
    return gradient;
  };
  Extrapolation extrapolation;
  double h = first_step;
  for (int step = 0; step < kSteps; ++step, h /= kShrink) {
    const Vector ahead = gradient_at(h);
    const Vector behind = gradient_at(-h);
    const double rounding = double{std::numeric_limits<real>::epsilon()} * length(ahead) / h;
    extrapolation.add((ahead - behind) * (0.5 / h), rounding);
    if (extrapolation.error() <= rounding && std::isfinite(extrapolation.error())) break;  // smaller steps add to it
  }
  const Vector& best = extrapolation.best();
  check<NumericError>(best.size() > 0, "differentiate_gradient: the gradient is not finite for any step up to ",
                      first_step);
  const double size = length(best);
  const double error = size > 0 ? extrapolation.error() / size : extrapolation.error();
  return {{begin(best), end(best)}, error};
}

SecondDerivative hessian_vector_product(Parameters& parameters, const std::function<Tensor()>& loss,
                                        std::span<const real> v) {
  check(v.size() == parameters.values().size(), "hessian_vector_product: v has ", v.size(),
        " elements, the parameters ", parameters.values().size());
  Displacement along = displacement_of(parameters, v);
  if (std::ranges::all_of(along.v, [](real e) { return e == 0; })) return {std::move(along.v)};
  const auto moved = [&](double h) {
    const std::span<real> values = parameters.edit();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<real>(double{values[i]} + h * double{along.v[i]});
    return loss();
  };
  const double scale = along.largest_value > 0 ? along.largest_value : 1;
  return differentiate_gradient(parameters, moved, 0.125 * scale / along.largest);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
