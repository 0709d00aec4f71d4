// Central differences along random directions, and the judgement of how they fall.
#include "gradient_check.h"

#include "../core/random.h"
#include "../kernels/kernels.h"
#include "../ops.h"

#include <algorithm>
#include <cmath>

namespace seppo::inline SEPPO_ABI {
namespace {

double norm(std::span<const real> x) { return std::sqrt(kernels::squared_norm(x.data(), x.size())); }

struct Direction {
  double error;  // best difference / (|g| |u|)
  double order;
  bool fell;
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
  for (std::size_t i = 1; i < differences.size(); ++i) {
    const Difference &before = differences[i - 1], &now = differences[i];
    smallest = std::min(smallest, now.value);
    if (before.value > kClear * before.rounding)
      order = std::max(order, std::log10(before.value / std::max(now.value, now.rounding)));
  }
  // Rounding grows tenfold where the rest falls a hundredfold: from k times rounding, a fall by k / (k / 100 + 10) is
  // the most that can be seen, and less if rounding is worse than thought.
  const double above_rounding = largest_step.value / largest_step.rounding;
  const double fall = above_rounding <= kClear ? 1 : above_rounding <= 10 * kClear ? 2 : 1000;
  return {smallest / scale, order, order > 1.5 || fall * smallest <= largest_step.value};
}

}  // namespace

GradientCheckReport gradient_check(std::span<real> values, std::span<real> gradients,
                                   const std::function<Tensor()>& loss, const GradientCheckOptions& options) {
  check<StateError>(sizeof(real) == sizeof(double), "gradient_check: needs double precision; link seppo::f64");
  check(values.size() == gradients.size(), "gradient_check: ", values.size(), " values, ", gradients.size(),
        " gradients");
  Tape& t = tape();
  const RandomContext random = t.random;
  const auto evaluate = [&] {
    t.clear();
    t.random = random;
    return loss();
  };

  std::fill(gradients.begin(), gradients.end(), real{0});
  t.backward(evaluate());
  const std::vector<real> gradient(gradients.begin(), gradients.end());
  const std::vector<real> saved(values.begin(), values.end());
  const double value = double{evaluate().item()};

  GradientCheckReport report{true, 0, 0, ""};
  RandomStream stream(options.seed, Purpose::test);
  std::vector<real> u(values.size());
  for (int direction = 0; direction < options.directions; ++direction) {
    double slope = 0;
    for (std::size_t i = 0; i < u.size(); ++i) {
      u[i] = static_cast<real>(stream.normal());
      slope += double{gradient[i]} * double{u[i]};
    }
    // A gradient that vanishes is compared with the size of the loss instead.
    const double scale = std::max(norm(gradient) * norm(u), 1e-5 * std::max(std::abs(value), 1.0));

    std::vector<Difference> differences;
    double h = options.first_step;
    for (int step = 0; step < options.steps; ++step, h /= 10) {
      const auto at = [&](double sign) {
        for (std::size_t i = 0; i < u.size(); ++i) values[i] = saved[i] + static_cast<real>(sign * h) * u[i];
        return double{evaluate().item()};
      };
      const double difference = (at(1) - at(-1)) / (2 * h);
      differences.push_back({std::abs(difference - slope), 1e-15 * std::max(std::abs(value), 1.0) / h});
    }
    std::copy(saved.begin(), saved.end(), values.begin());

    const Direction d = judge(differences, scale);
    const bool passed = d.error <= options.tolerance && d.fell;
    report.passed &= passed;
    if (d.error >= report.error) report.error = d.error, report.order = d.order;
    report.text += concat_text(passed ? "ok    " : "WRONG ", "direction ", direction, ": slope ", slope,
                               ", relative error ", d.error, ", order ", d.order, "\n");
  }
  t.clear();
  t.random = random;
  return report;
}

GradientCheckReport gradient_check(std::initializer_list<Shape> shapes,
                                   const std::function<Tensor(std::span<const Tensor>)>& op,
                                   const GradientCheckOptions& options) {
  std::size_t total = 0;
  for (const Shape& shape : shapes) total += static_cast<std::size_t>(shape.numel());
  std::vector<real> values(total), gradients(total), cotangent;
  RandomStream stream(options.seed, Purpose::test, 1);
  for (real& v : values) v = static_cast<real>(stream.normal());

  // Each input is a leaf whose values and gradient live in the flat vectors.
  struct Leaves {
    std::vector<Node*> nodes;
    ~Leaves() {
      for (Node* node : nodes) release_leaf(*node);
    }
  } leaves;
  std::vector<Tensor> inputs;
  std::size_t first = 0;
  for (const Shape& shape : shapes) {
    leaves.nodes.push_back(&acquire_leaf(shape, values.data() + first, gradients.data() + first, nullptr));
    inputs.emplace_back(*leaves.nodes.back());
    first += static_cast<std::size_t>(shape.numel());
  }
  return gradient_check(
      values, gradients,
      [&] {
        const Tensor y = op(inputs);
        while (cotangent.size() < y.numel()) cotangent.push_back(static_cast<real>(stream.normal()));
        return sum(mul(y, tensor(y.shape(), std::span<const real>(cotangent.data(), y.numel()))));
      },
      options);
}

}  // namespace seppo::inline SEPPO_ABI
