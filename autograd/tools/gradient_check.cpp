// Central differences along random directions, and the judgement of how they fall.
#include "gradient_check.h"

#include "../core/random.h"
#include "../kernels/kernels.h"
#include "../ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace seppo::inline SEPPO_ABI {
namespace {

double norm(std::span<const real> x) { return std::sqrt(kernels::squared_norm(x.data(), x.size())); }

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

// Values and gradients, of which one stretch at a time is moved; all is as before at the end.
class Check {
 public:
  Check(std::span<real> values, std::span<real> gradients, const std::function<Tensor()>& loss,
        const GradientCheckOptions& options)
      : values_(values),
        gradients_(gradients),
        loss_(loss),
        options_(options),
        saved_(values.begin(), values.end()),
        saved_gradients_(gradients.begin(), gradients.end()),
        stream_(options.seed, Purpose::test) {
    std::fill(gradients.begin(), gradients.end(), real{0});
    const Tensor value = loss_at(0, {}, 0);
    value_ = double{value.item()};
    tape().backward(value);
    gradient_.assign(gradients.begin(), gradients.end());
  }
  ~Check() {
    std::ranges::copy(saved_, values_.begin());
    std::ranges::copy(saved_gradients_, gradients_.begin());
    tape().clear();
    tape().random = random_;
  }
  Check(const Check&) = delete;

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
      const double difference = (moved(begin, u, h) - moved(begin, u, -h)) / (2 * h);
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
    const double difference = (moved(begin, one, kStep) - moved(begin, one, -kStep)) / (2 * kStep);
    return concat_text("element ", begin - first, ": gradient ", gradient_[begin], ", differences give ", difference);
  }

 private:
  Tensor loss_at(std::size_t begin, std::span<const real> u, double h) {
    std::ranges::copy(saved_, values_.begin());
    for (std::size_t i = 0; i < u.size(); ++i) values_[begin + i] += static_cast<real>(h) * u[i];
    tape().clear();
    tape().random = random_;
    return loss_();
  }
  double moved(std::size_t begin, std::span<const real> u, double h) { return double{loss_at(begin, u, h).item()}; }

  std::span<real> values_, gradients_;
  const std::function<Tensor()>& loss_;
  const GradientCheckOptions& options_;
  const std::vector<real> saved_, saved_gradients_;
  const RandomContext random_ = tape().random;
  RandomStream stream_;
  std::vector<real> gradient_;
  double value_ = 0, slope_ = 0;
};

}  // namespace

GradientCheckReport gradient_check(std::span<real> values, std::span<real> gradients,
                                   std::span<const CheckedPart> parts, const std::function<Tensor()>& loss,
                                   const GradientCheckOptions& options) {
  check<StateError>(sizeof(real) == sizeof(double), "gradient_check: needs double precision; link seppo::f64");
  check(values.size() == gradients.size(), "gradient_check: ", values.size(), " values, ", gradients.size(),
        " gradients");
  Check run(values, gradients, loss, options);
  if (!run.is_finite())
    return {false, std::numeric_limits<double>::infinity(), 0,
            concat_text("WRONG the value is ", run.value(), ", and it or its gradient is not finite: try other values",
                        " (for an op, gradient_check_at)\n")};
  GradientCheckReport report{true, 0, 0, ""};
  for (const CheckedPart& part : parts) {
    const std::string name = part.name.empty() ? "" : part.name + ", ";
    bool passed = true;
    for (int direction = 0; direction < options.directions && part.size > 0; ++direction) {
      const Direction d = run.direction(part.offset, part.offset + part.size);
      passed &= run.passes(d);
      if (d.error >= report.error) report.error = d.error, report.order = d.order;
      report.text += concat_text(run.passes(d) ? "ok    " : "WRONG ", name, "direction ", direction, ": slope ",
                                 run.slope(), ", relative error ", d.error, ", order ", d.order, "\n");
    }
    if (!passed)
      report.text += concat_text("      ", name, run.wrong_element(part.offset, part.offset + part.size), "\n");
    report.passed &= passed;
  }
  return report;
}

GradientCheckReport gradient_check_at(List<Tensor> given, const CheckedOp& op, const GradientCheckOptions& options) {
  std::vector<Shape> shapes;
  std::vector<real> values, cotangent;
  for (const Tensor& x : given) {
    shapes.push_back(x.shape());
    values.insert(values.end(), x.values().begin(), x.values().end());
  }
  std::vector<real> gradients(values.size());
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
  RandomStream stream(options.seed, Purpose::test, 2);
  const std::vector<CheckedPart> all{{"", 0, values.size()}};
  return gradient_check(
      values, gradients, all,
      [&] {
        const Tensor y = op(inputs);
        while (cotangent.size() < y.numel()) cotangent.push_back(static_cast<real>(stream.normal()));
        return sum(mul(y, tensor(y.shape(), std::span<const real>(cotangent.data(), y.numel()))));
      },
      options);
}

GradientCheckReport gradient_check(std::initializer_list<Shape> shapes, const CheckedOp& op,
                                   const GradientCheckOptions& options) {
  RandomStream stream(options.seed, Purpose::test, 1);
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(randn(shape, stream));
  return gradient_check_at(inputs, op, options);
}

}  // namespace seppo::inline SEPPO_ABI
