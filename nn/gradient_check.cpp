// Central differences of losses along random directions, judged by how their error falls.
#include "gradient_check.h"

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

double norm(const Vector& x) { return std::sqrt(std::inner_product(begin(x), end(x), begin(x), 0.0)); }

// Some elements of the parameters' block, along which a direction lies.
struct Elements {
  std::size_t begin, end;

  std::size_t size() const { return end - begin; }
};

struct Direction {
  double slope;       // g u
  double difference;  // the best |D(h) - g u|
  double error;       // difference / (|g| |u|)
  double order;
  bool passes;
};

// |D(h) - g u| for one step, and how much of it rounding can explain.
struct Difference {
  double value, rounding;
};

constexpr double kClear = 100;  // times rounding: a difference above it is significant

// How fast the differences fall, from the largest step to the smallest: the order of h.
double order_of(const std::vector<Difference>& differences) {
  double order = 0;
  for (std::size_t i = 1; i < differences.size(); ++i) {
    const Difference& before = differences[i - 1];
    const Difference& now = differences[i];
    if (before.value <= kClear * before.rounding) continue;
    order = std::max(order, std::log10(before.value / std::max(now.value, now.rounding)));
  }
  return order;
}

// Whether a significant difference is the same for two steps, and no step brings it down to half: part of the slope is
// then missing.
bool stays(const std::vector<Difference>& differences, double smallest) {
  double level = 0;
  for (std::size_t i = 1; i < differences.size(); ++i) {
    const Difference& before = differences[i - 1];
    const Difference& now = differences[i];
    const bool is_same = std::abs(now.value - before.value) < 0.1 * now.value;
    if (is_same && now.value > kClear * now.rounding) level = now.value;
  }
  return level > 0 && smallest > level / 2;
}

// By what factor the differences must fall from the largest step to the best one if no second-order fall was seen.
double required_fall(const Difference& largest_step) {
  const double above_rounding = largest_step.value / largest_step.rounding;
  if (above_rounding <= kClear) return 1;  // all is rounding
  // The next step has a hundredth of the difference and ten times the rounding, so little of a fall can be seen.
  if (above_rounding <= 10 * kClear) return 2;
  return 1000;  // enough steps are above rounding; at kinks, as of ReLU, the fall is slow but goes on
}

bool falls(const std::vector<Difference>& differences, double order, double smallest) {
  if (stays(differences, smallest)) return false;
  if (order > 1.5) return true;
  const Difference& largest_step = differences.front();
  return required_fall(largest_step) * smallest <= largest_step.value;
}

class GradientChecker {
 public:
  GradientChecker(Parameters& parameters, const std::function<Tensor()>& loss, const GradientCheckOptions& options)
      : loss_(loss),
        options_(options),
        state_(parameters, "during a gradient check"),
        stream_(options.seed, Purpose::test) {
    state_.restore();
    const Tensor value = loss();
    value_ = double{value.item()};
    tape().backward(value);
    gradient_.assign(parameters.gradients().begin(), parameters.gradients().end());
  }

  double value() const { return value_; }
  double gradient(std::size_t element) const { return double{gradient_[element]}; }
  bool is_finite() const {
    return std::isfinite(value_) && std::ranges::all_of(gradient_, [](real g) { return std::isfinite(g); });
  }

  // The central difference along u, a direction within the elements that start at `first`.
  double slope_along(std::size_t first, const Vector& u, double h) {
    const double ahead = loss_at(first, u, h);
    const double behind = loss_at(first, u, -h);
    return (ahead - behind) / (2 * h);
  }

  Direction check_random_direction(Elements elements) {
    Vector g(elements.size());
    Vector u(elements.size());
    std::copy_n(&gradient_[elements.begin], g.size(), std::begin(g));
    for (double& element : u) element = stream_.normal();
    const double slope = (g * u).sum();
    const std::vector<Difference> found = differences(elements.begin, u, slope);
    const double smallest = std::ranges::min(found, {}, &Difference::value).value;
    // A gradient that vanishes is compared with the size of the loss instead.
    const double error = smallest / std::max(norm(g) * norm(u), 1e-5 * size());
    const double order = order_of(found);
    const bool passes = error <= options_.tolerance && falls(found, order, smallest);
    return {slope, smallest, error, order, passes};
  }

  // Bisects to an element whose slope is wrong.
  std::size_t find_wrong_element(Elements elements) {
    while (elements.size() > 1) {
      const std::size_t middle = elements.begin + elements.size() / 2;
      const Direction before = check_random_direction({elements.begin, middle});
      const Direction after = check_random_direction({middle, elements.end});
      if (before.difference > after.difference)
        elements.end = middle;
      else
        elements.begin = middle;
    }
    return elements.begin;
  }

 private:
  double size() const { return std::max(std::abs(value_), 1.0); }  // of the loss

  double loss_at(std::size_t first, const Vector& u, double step) {
    const std::span<real> values = state_.restore().subspan(first);
    for (std::size_t i = 0; i < u.size(); ++i) values[i] += static_cast<real>(step * u[i]);
    return double{loss_().item()};
  }

  // From the largest step to the smallest. A large step may leave the loss's domain; the last one is kept in any case.
  std::vector<Difference> differences(std::size_t first, const Vector& u, double slope) {
    std::vector<Difference> found;
    double h = options_.first_step;
    for (int step = 0; step < options_.steps; ++step, h /= 10) {
      const double difference = std::abs(slope_along(first, u, h) - slope);
      const bool is_last = step + 1 == options_.steps;
      if (std::isfinite(difference) || is_last) found.push_back({difference, 1e-15 * size() / h});
    }
    return found;
  }

  const std::function<Tensor()>& loss_;
  const GradientCheckOptions& options_;
  Snapshot state_;
  RandomStream stream_;
  double value_ = 0;
  std::vector<real> gradient_;
};

// Adds what was found to the report.
void check_parameter(GradientChecker& checker, const Parameters::Entry& entry, int directions,
                     GradientCheckReport& report) {
  const Elements elements{entry.offset, entry.offset + entry.size()};
  bool passed = true;
  for (int direction = 0; direction < directions && elements.size() > 0; ++direction) {
    const Direction d = checker.check_random_direction(elements);
    passed &= d.passes;
    if (!(d.error < report.error)) {
      report.error = d.error;
      report.order = d.order;
    }
    report.text += concat_text(d.passes ? "ok    " : "WRONG ", entry.name, ", direction ", direction, ": slope ",
                               d.slope, ", relative error ", d.error, ", order ", d.order, "\n");
  }
  report.passed &= passed;
  if (passed) return;
  const std::size_t wrong = checker.find_wrong_element(elements);
  report.text +=
      concat_text("      ", entry.name, ", element ", wrong - entry.offset, ": gradient ", checker.gradient(wrong),
                  ", differences give ", checker.slope_along(wrong, Vector{1}, 1e-5), "\n");
}

}  // namespace

GradientCheckReport gradient_check(Parameters& parameters, const std::function<Tensor()>& loss,
                                   const GradientCheckOptions& options) {
  check<StateError>(sizeof(real) == sizeof(double), "gradient_check: needs double precision; link seppo::f64");
  check<ArgumentError>(options.directions > 0 && options.steps > 0, "gradient_check: ", options.directions,
                       " directions and ", options.steps, " steps check nothing");
  GradientChecker checker(parameters, loss, options);
  if (!checker.is_finite())
    return {false, std::numeric_limits<double>::infinity(), 0,
            concat_text("WRONG the value is ", checker.value(), ", and it or its gradient is not finite: ",
                        "try other values (for an op, gradient_check_at)\n")};
  GradientCheckReport report{true, 0, 0, ""};
  for (const Parameters::Entry& entry : parameters.entries())
    if (entry.trained) check_parameter(checker, entry, options.directions, report);
  return report;
}

GradientCheckReport gradient_check_at(List<Tensor> given, const CheckedOp& op, const GradientCheckOptions& options) {
  Parameters parameters(options.seed);
  std::vector<Tensor> inputs;
  for (const Tensor& x : given) {
    const std::string name = "input " + std::to_string(inputs.size());
    const Init copy = [&](std::span<real> to, const Shape&, RandomStream&) {
      std::ranges::copy(x.values(), to.begin());
    };
    inputs.push_back(parameters.root().parameter(name, x.shape(), copy));
  }
  std::vector<real> cotangent;
  RandomStream stream(options.seed, Purpose::test, 2);
  const auto loss = [&] {
    const Tensor y = op(inputs);
    while (cotangent.size() < y.numel()) cotangent.push_back(static_cast<real>(stream.normal()));
    const std::span<const real> weights(cotangent.data(), y.numel());
    return sum(mul(y, tensor(y.shape(), weights)));
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

}  // namespace SEPPO_ABI
}  // namespace seppo
