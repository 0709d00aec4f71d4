// Central differences: along random directions with the judgement of how they fall, and of gradients.
#include "gradient_check.h"

#include "../autograd/kernels/kernels.h"
#include "../autograd/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace seppo::inline SEPPO_ABI {
namespace {

double norm(std::span<const real> x) { return std::sqrt(kernels::squared_norm(x.data(), x.size())); }

// Sets values, gradients and tape().random back at the end, and clears the tape.
class Restored {
 public:
  explicit Restored(Parameters& parameters) : parameters_(parameters) {
    const Parameters& now = parameters;
    values_.assign(now.values().begin(), now.values().end());
    gradients_.assign(now.gradients().begin(), now.gradients().end());
  }
  ~Restored() {
    reset();
    std::ranges::copy(gradients_, parameters_.gradients().begin());
  }
  Restored(const Restored&) = delete;

  // All as at first, but for gradients of zero. Returns the values.
  std::span<real> reset() {
    tape().clear();
    tape().random = random_;
    parameters_.zero_gradients();
    std::ranges::copy(values_, parameters_.values().begin());
    return parameters_.values();
  }

 private:
  Parameters& parameters_;
  std::vector<real> values_, gradients_;
  const RandomContext random_ = tape().random;
};

struct Direction {
  double error;  // best difference / (|g| |u|)
  double order;
  bool fell;
  double missing;  // the best difference itself
};

// |D(h) - g u| for one step, and how much of it rounding explains.
struct Difference {
  double value, rounding;
};

// The differences of one direction, from the largest step to the smallest.
Direction judge(const std::vector<Difference>& differences, double scale) {
  constexpr double kClear = 100;  // times rounding: what lies above it is a difference to judge by
  const Difference& largest_step = differences.front();
  double smallest = largest_step.value, order = 0;
  double level = 0;  // above rounding, and the same for two steps: part of the slope is missing, if it stays
  for (std::size_t i = 1; i < differences.size(); ++i) {
    const Difference &before = differences[i - 1], &now = differences[i];
    smallest = std::min(smallest, now.value);
    if (before.value > kClear * before.rounding)
      order = std::max(order, std::log10(before.value / std::max(now.value, now.rounding)));
    if (now.value > kClear * now.rounding && std::abs(now.value - before.value) < 0.1 * now.value) level = now.value;
  }
  // Rounding grows tenfold where the rest falls a hundredfold: from k times rounding, a fall by k / (k / 100 + 10) is
  // the most that can be seen, and less if rounding is worse than thought.
  const double above_rounding = largest_step.value / largest_step.rounding;
  const double fall = above_rounding <= kClear ? 1 : above_rounding <= 10 * kClear ? 2 : 1000;
  const bool stays = level > 0 && smallest > level / 2;
  return {smallest / scale, order, !stays && (order > 1.5 || fall * smallest <= largest_step.value), smallest};
}

// A loss along stretches of the parameters, one at a time.
class Check {
 public:
  Check(Parameters& parameters, const std::function<Tensor()>& loss, const GradientCheckOptions& options)
      : state_(parameters), loss_(loss), options_(options), stream_(options.seed, Purpose::test) {
    state_.reset();
    const Tensor value = loss();
    value_ = double{value.item()};
    tape().backward(value);
    gradient_.assign(parameters.gradients().begin(), parameters.gradients().end());
  }

  bool is_finite() const {
    return std::isfinite(value_) && std::ranges::all_of(gradient_, [](real g) { return std::isfinite(g); });
  }
  double value() const { return value_; }
  double slope() const { return slope_; }  // g u of the last direction

  // Along a random direction within [begin, end).
  Direction direction(std::size_t begin, std::size_t end) {
    std::vector<real> u(end - begin);
    slope_ = 0;
    for (std::size_t i = 0; i < u.size(); ++i) {
      u[i] = static_cast<real>(stream_.normal());
      slope_ += double{gradient_[begin + i]} * double{u[i]};
    }
    // A gradient that vanishes is compared with the size of the loss instead.
    const double scale =
        std::max(norm(std::span(gradient_).subspan(begin, u.size())) * norm(u), 1e-5 * std::max(std::abs(value_), 1.0));
    std::vector<Difference> differences;
    double h = options_.first_step;
    for (int step = 0; step < options_.steps; ++step, h /= 10) {
      const double difference = (loss_at(begin, u, h) - loss_at(begin, u, -h)) / (2 * h);
      differences.push_back({std::abs(difference - slope_), 1e-15 * std::max(std::abs(value_), 1.0) / h});
    }
    return judge(differences, scale);
  }
  bool passes(const Direction& d) const { return d.error <= options_.tolerance && d.fell; }

  // An element within [begin, end) whose slope is wrong, where the whole stretch is found wrong.
  std::string wrong_element(std::size_t begin, std::size_t end) {
    const std::size_t first = begin;
    while (end - begin > 1) {
      const std::size_t middle = begin + (end - begin) / 2;
      direction(begin, middle).missing > direction(middle, end).missing ? end = middle : begin = middle;
    }
    const std::vector<real> one{1};
    constexpr double kStep = 1e-5;
    const double difference = (loss_at(begin, one, kStep) - loss_at(begin, one, -kStep)) / (2 * kStep);
    return concat_text("element ", begin - first, ": gradient ", gradient_[begin], ", differences give ", difference);
  }

 private:
  double loss_at(std::size_t begin, std::span<const real> u, double h) {
    const std::span<real> values = state_.reset().subspan(begin);
    for (std::size_t i = 0; i < u.size(); ++i) values[i] += static_cast<real>(h) * u[i];
    return double{loss_().item()};
  }

  Restored state_;
  const std::function<Tensor()>& loss_;
  const GradientCheckOptions& options_;
  RandomStream stream_;
  std::vector<real> gradient_;
  double value_ = 0, slope_ = 0;
};

}  // namespace

GradientCheckReport gradient_check(Parameters& parameters, const std::function<Tensor()>& loss,
                                   const GradientCheckOptions& options) {
  check<StateError>(sizeof(real) == sizeof(double), "gradient_check: needs double precision; link seppo::f64");
  Check run(parameters, loss, options);
  if (!run.is_finite())
    return {false, std::numeric_limits<double>::infinity(), 0,
            concat_text("WRONG the value is ", run.value(), ", and it or its gradient is not finite: try other values",
                        " (for an op, gradient_check_at)\n")};
  GradientCheckReport report{true, 0, 0, ""};
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (!entry.trained) continue;
    const std::size_t begin = entry.offset, end = begin + entry.size();
    bool passed = true;
    for (int direction = 0; direction < options.directions && begin < end; ++direction) {
      const Direction d = run.direction(begin, end);
      passed &= run.passes(d);
      if (d.error >= report.error) report.error = d.error, report.order = d.order;
      report.text += concat_text(run.passes(d) ? "ok    " : "WRONG ", entry.name, ", direction ", direction, ": slope ",
                                 run.slope(), ", relative error ", d.error, ", order ", d.order, "\n");
    }
    if (!passed) report.text += concat_text("      ", entry.name, ", ", run.wrong_element(begin, end), "\n");
    report.passed &= passed;
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

namespace {

using Vector = std::vector<double>;

double distance(const Vector& a, const Vector& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

// a + (a - b) factor
Vector beyond(const Vector& a, const Vector& b, double factor) {
  Vector c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) c[i] = a[i] + (a[i] - b[i]) * factor;
  return c;
}

}  // namespace

SecondDerivative differentiate_gradient(Parameters& parameters, const std::function<Tensor(double h)>& loss,
                                        double first_step) {
  constexpr int kSteps = 24;
  constexpr double kShrink = 2;
  Restored state(parameters);
  const auto gradient_at = [&](double h) {
    state.reset();
    tape().backward(loss(h));
    return Vector(parameters.gradients().begin(), parameters.gradients().end());
  };
  // tableau[k], of the step before, and now[k] have an error of order h^(2k + 2).
  std::vector<Vector> tableau;
  Vector best;
  double error = std::numeric_limits<double>::infinity(), h = first_step;
  for (int step = 0; step < kSteps; ++step, h /= kShrink) {
    const Vector ahead = gradient_at(h), behind = gradient_at(-h);
    std::vector<Vector> now{beyond(Vector(ahead.size()), behind, 0.5 / h)};
    for (std::size_t i = 0; i < ahead.size(); ++i) now[0][i] += ahead[i] * (0.5 / h);
    double power = 1;
    for (const Vector& before : tableau) {
      const Vector& last = now.back();
      power *= kShrink * kShrink;
      Vector next = beyond(last, before, 1 / (power - 1));
      const double change = std::max(distance(next, last), distance(next, before));
      if (change <= error) error = change, best = next;
      now.push_back(std::move(next));
    }
    const double rounding = double{std::numeric_limits<real>::epsilon()} * distance(ahead, Vector(ahead.size())) / h;
    if (error <= rounding) break;  // smaller steps would only add to it
    tableau = std::move(now);
  }
  check<NumericError>(!best.empty(), "differentiate_gradient: the gradient is not finite for any step up to ",
                      first_step);
  const double size = distance(best, Vector(best.size()));
  return {{best.begin(), best.end()}, size > 0 ? error / size : error};
}

SecondDerivative hessian_vector_product(Parameters& parameters, const std::function<Tensor()>& loss,
                                        std::span<const real> v) {
  const std::span<const real> x = std::as_const(parameters).values();
  check(v.size() == x.size(), "hessian_vector_product: v has ", v.size(), " elements, the parameters ", x.size());
  double largest = 0, longest = 0;  // of x and of v
  std::vector<real> u(v.size());
  for (const Parameters::Entry& entry : parameters.entries())
    for (std::size_t i = entry.offset; entry.trained && i < entry.offset + entry.size(); ++i) {
      u[i] = v[i];
      largest = std::max(largest, std::abs(double{x[i]}));
      longest = std::max(longest, std::abs(double{v[i]}));
    }
  if (longest == 0) return {std::move(u)};
  const auto moved = [&](double h) {
    const std::span<real> values = parameters.values();
    for (std::size_t i = 0; i < u.size(); ++i) values[i] = static_cast<real>(double{values[i]} + h * double{u[i]});
    return loss();
  };
  return differentiate_gradient(parameters, moved, 0.125 * (largest > 0 ? largest : 1) / longest);
}

}  // namespace seppo::inline SEPPO_ABI
