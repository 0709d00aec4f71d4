// Central differences: of losses along random directions, judged by how their error falls, and of gradients.
#include "gradient_check.h"

#include "../autograd/ops.h"

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

double norm(const Vector& x) { return std::sqrt(std::inner_product(begin(x), end(x), begin(x), 0.0)); }

// Restores values, gradients and tape().random at the end, and clears the tape.
class Restored {
 public:
  explicit Restored(Parameters& parameters) : parameters_(parameters), fixed_(parameters, "during a gradient check") {
    tape().clear();  // throws during backward, before there is anything to restore
    const Parameters& now = parameters;
    values_.assign(now.values().begin(), now.values().end());
    gradients_.assign(now.gradients().begin(), now.gradients().end());
  }
  ~Restored() {
    reset();
    std::ranges::copy(gradients_, parameters_.gradients().begin());
  }
  Restored(const Restored&) = delete;

  // Restores everything, with gradients of zero. Returns the values.
  std::span<real> reset() {
    tape().clear();
    tape().random = random_;
    parameters_.zero_gradients();
    std::ranges::copy(values_, parameters_.edit().begin());
    return parameters_.edit();
  }

 private:
  Parameters& parameters_;
  std::vector<real> values_, gradients_;
  const RandomContext random_ = tape().random;  // before the constructor clears the tape
  const Parameters::Fixed fixed_;
};

struct Direction {
  double slope;    // g u
  double missing;  // the best difference
  double error;    // missing / (|g| |u|)
  double order;
  bool passes;
};

// |D(h) - g u| for one step, and how much of it rounding can explain.
struct Difference {
  double value, rounding;
};

// Judges differences, from the largest step to the smallest: whether they fall, and how fast.
std::pair<double, bool> judge(const std::vector<Difference>& differences, double smallest) {
  constexpr double kClear = 100;  // times rounding: differences above it are significant
  const Difference& largest_step = differences.front();
  double order = 0;
  double level = 0;  // a significant difference that is the same for two steps: part of the slope may be missing
  for (std::size_t i = 1; i < differences.size(); ++i) {
    const Difference &before = differences[i - 1], &now = differences[i];
    if (before.value > kClear * before.rounding)
      order = std::max(order, std::log10(before.value / std::max(now.value, now.rounding)));
    if (now.value > kClear * now.rounding && std::abs(now.value - before.value) < 0.1 * now.value) level = now.value;
  }
  // Rounding grows tenfold while the rest falls a hundredfold: starting at k times rounding, a fall by
  // k / (k / 100 + 10) is the most that can be seen, and less if rounding is worse than estimated.
  const double above_rounding = largest_step.value / largest_step.rounding;
  const double fall = above_rounding <= kClear ? 1 : above_rounding <= 10 * kClear ? 2 : 1000;
  const bool stays = level > 0 && smallest > level / 2;
  return {order, !stays && (order > 1.5 || fall * smallest <= largest_step.value)};
}

}  // namespace

GradientCheckReport gradient_check(Parameters& parameters, const std::function<Tensor()>& loss,
                                   const GradientCheckOptions& options) {
  check<StateError>(sizeof(real) == sizeof(double), "gradient_check: needs double precision; link seppo::f64");
  check<ArgumentError>(options.directions > 0 && options.steps > 0, "gradient_check: ", options.directions,
                       " directions and ", options.steps, " steps check nothing");
  Restored state(parameters);
  state.reset();
  const Tensor at_first = loss();
  const double value = double{at_first.item()}, size = std::max(std::abs(value), 1.0);
  tape().backward(at_first);
  const std::vector<real> gradient(parameters.gradients().begin(), parameters.gradients().end());
  if (!std::isfinite(value) || !std::ranges::all_of(gradient, [](real g) { return std::isfinite(g); }))
    return {false, std::numeric_limits<double>::infinity(), 0,
            concat_text("WRONG the value is ", value, ", and it or its gradient is not finite: try other values",
                        " (for an op, gradient_check_at)\n")};
  // The central difference along u, for elements from `first` on.
  const auto slope_at = [&](std::size_t first, const Vector& u, double h) {
    const auto loss_at = [&](double step) {
      const std::span<real> values = state.reset().subspan(first);
      for (std::size_t i = 0; i < u.size(); ++i) values[i] += static_cast<real>(step * u[i]);
      return double{loss().item()};
    };
    return (loss_at(h) - loss_at(-h)) / (2 * h);
  };
  RandomStream stream(options.seed, Purpose::test);
  const auto random_direction = [&](std::size_t begin, std::size_t end) -> Direction {
    Vector g(end - begin), u(end - begin);
    std::copy_n(&gradient[begin], g.size(), std::begin(g));
    for (double& element : u) element = stream.normal();
    const double slope = (g * u).sum();
    std::vector<Difference> differences;
    double h = options.first_step;
    for (int step = 0; step < options.steps; ++step, h /= 10)  // a large step may leave a domain
      if (const double d = std::abs(slope_at(begin, u, h) - slope); std::isfinite(d) || step + 1 == options.steps)
        differences.push_back({d, 1e-15 * size / h});
    const double smallest = std::ranges::min(differences, {}, &Difference::value).value;
    const auto [order, falls] = judge(differences, smallest);
    // A gradient that vanishes is compared with the size of the loss instead.
    const double error = smallest / std::max(norm(g) * norm(u), 1e-5 * size);
    return {slope, smallest, error, order, error <= options.tolerance && falls};
  };
  GradientCheckReport report{true, 0, 0, ""};
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (!entry.trained) continue;
    std::size_t begin = entry.offset, end = begin + entry.size();
    bool passed = true;
    for (int direction = 0; direction < options.directions && begin < end; ++direction) {
      const Direction d = random_direction(begin, end);
      passed &= d.passes;
      if (!(d.error < report.error)) report.error = d.error, report.order = d.order;
      report.text += concat_text(d.passes ? "ok    " : "WRONG ", entry.name, ", direction ", direction, ": slope ",
                                 d.slope, ", relative error ", d.error, ", order ", d.order, "\n");
    }
    report.passed &= passed;
    if (passed) continue;
    while (end - begin > 1) {  // bisects to an element whose slope is wrong
      const std::size_t middle = begin + (end - begin) / 2;
      const bool is_before = random_direction(begin, middle).missing > random_direction(middle, end).missing;
      (is_before ? end : begin) = middle;
    }
    report.text += concat_text("      ", entry.name, ", element ", begin - entry.offset, ": gradient ", gradient[begin],
                               ", differences give ", slope_at(begin, Vector{1}, 1e-5), "\n");
  }
  return report;
}

GradientCheckReport gradient_check_at(List<Tensor> given, const CheckedOp& op, const GradientCheckOptions& options) {
  Parameters parameters(options.seed);
  std::vector<Tensor> inputs;
  for (const Tensor& x : given) {
    const Init copy = [&](std::span<real> to, const Shape&, RandomStream&) {
      std::ranges::copy(x.values(), to.begin());
    };
    inputs.push_back(parameters.root().parameter("input " + std::to_string(inputs.size()), x.shape(), copy));
  }
  std::vector<real> cotangent;
  RandomStream stream(options.seed, Purpose::test, 2);
  const auto loss = [&] {
    const Tensor y = op(inputs);
    while (cotangent.size() < y.numel()) cotangent.push_back(static_cast<real>(stream.normal()));
    return sum(mul(y, tensor(y.shape(), std::span<const real>(cotangent.data(), y.numel()))));
  };
  return gradient_check(parameters, loss, options);
}

GradientCheckReport gradient_check(std::initializer_list<Shape> shapes, const CheckedOp& op,
                                   const GradientCheckOptions& options) {
  RandomStream stream(options.seed, Purpose::test, 1);
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(randn(shape, stream));
  return gradient_check_at(inputs, op, options);
}

SecondDerivative differentiate_gradient(Parameters& parameters, const std::function<Tensor(double h)>& loss,
                                        double first_step) {
  constexpr int kSteps = 24;
  constexpr double kShrink = 2;
  Restored state(parameters);
  const auto gradient_at = [&](double h) {
    state.reset();
    tape().backward(loss(h));
    Vector gradient(parameters.gradients().size());
    std::ranges::copy(parameters.gradients(), begin(gradient));
    return gradient;
  };
  // tableau[k], of the step before, and now[k] have an error of order h^(2k + 2).
  std::vector<Vector> tableau;
  Vector best;
  double error = std::numeric_limits<double>::infinity(), h = first_step;
  for (int step = 0; step < kSteps; ++step, h /= kShrink) {
    const Vector ahead = gradient_at(h), behind = gradient_at(-h);
    const double rounding = double{std::numeric_limits<real>::epsilon()} * norm(ahead) / h;
    std::vector<Vector> now{Vector((ahead - behind) * (0.5 / h))};
    double power = 1;
    for (const Vector& before : tableau) {
      const Vector& last = now.back();
      power *= kShrink * kShrink;
      Vector next = last + (last - before) / (power - 1);
      // Differences may all be rounded to the same number, 0 for example: then it is no better than their rounding.
      const double change = std::max({norm(next - last), norm(next - before), rounding});
      if (change < error) error = change, best = next;
      now.push_back(std::move(next));
    }
    if (error <= rounding && std::isfinite(error)) break;  // smaller steps would only add to it
    tableau = std::move(now);
  }
  check<NumericError>(best.size() > 0, "differentiate_gradient: the gradient is not finite for any step up to ",
                      first_step);
  const double size = norm(best);
  return {{begin(best), end(best)}, size > 0 ? error / size : error};
}

SecondDerivative hessian_vector_product(Parameters& parameters, const std::function<Tensor()>& loss,
                                        std::span<const real> v) {
  const std::span<const real> x = parameters.values();
  check(v.size() == x.size(), "hessian_vector_product: v has ", v.size(), " elements, the parameters ", x.size());
  double largest = 0, longest = 0;  // |x| and |v|
  std::vector<real> u(v.size());
  for (const Parameters::Entry& entry : parameters.entries())
    for (std::size_t i = entry.offset; entry.trained && i < entry.offset + entry.size(); ++i) {
      u[i] = v[i];
      largest = std::max(largest, std::abs(double{x[i]}));
      longest = std::max(longest, std::abs(double{v[i]}));
    }
  if (std::ranges::all_of(u, [](real e) { return e == 0; })) return {std::move(u)};
  const auto moved = [&](double h) {
    const std::span<real> values = parameters.edit();
    for (std::size_t i = 0; i < u.size(); ++i) values[i] = static_cast<real>(double{values[i]} + h * double{u[i]});
    return loss();
  };
  return differentiate_gradient(parameters, moved, 0.125 * (largest > 0 ? largest : 1) / longest);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
