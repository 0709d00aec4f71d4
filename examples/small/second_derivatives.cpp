// Second derivatives of any model, as checked differences of gradients (docs/second-derivatives.md): the sharpest
// direction of a loss by Hessian-vector products, Newton's method, and a critic trained with a gradient penalty. Linked
// to seppo::f64: in single precision, five digits are correct instead of twelve.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/second_derivatives.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

using namespace seppo;

constexpr int kRows = 64;
constexpr real kPenalty = 10;

double dot(std::span<const real> a, std::span<const real> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Tensor normal(const Shape& shape, std::uint64_t index, double shift = 0) {
  RandomStream random(/*seed=*/1, Purpose::data, index);
  return randn(shape, random) + shift;
}

// The largest eigenvalue of the Hessian, by power iteration: 2 / it is the largest stable step of gradient descent.
double sharpness(Parameters& parameters, const std::function<Tensor()>& loss) {
  const Tensor start = normal({parameters.values().size()}, /*index=*/0);
  std::vector<real> v(start.values().begin(), start.values().end());
  double eigenvalue = 0;
  for (int i = 0; i < 30; ++i) {
    const double length = std::sqrt(dot(v, v));
    for (real& x : v) x /= static_cast<real>(length);
    const SecondDerivative product = hessian_vector_product(parameters, loss, v);
    eigenvalue = dot(v, product.value);
    v = product.value;
  }
  return eigenvalue;
}

// Solves H d = b by conjugate gradients, for a loss that is convex: Newton's step is -d for b the gradient.
std::vector<real> solve(Parameters& parameters, const std::function<Tensor()>& loss, const std::vector<real>& b) {
  std::vector<real> d(b.size()), rest = b, v = b;
  for (double left = dot(rest, rest); left > 1e-20 * dot(b, b);) {
    const std::vector<real> product = hessian_vector_product(parameters, loss, v).value;
    const double step = left / dot(v, product), before = left;
    for (std::size_t i = 0; i < b.size(); ++i) {
      d[i] += static_cast<real>(step) * v[i];
      rest[i] -= static_cast<real>(step) * product[i];
    }
    left = dot(rest, rest);
    for (std::size_t i = 0; i < b.size(); ++i) v[i] = rest[i] + static_cast<real>(left / before) * v[i];
  }
  return d;
}

struct Critic {
  explicit Critic(const Scope& s) : hidden(s / "hidden", 2, 16), out(s / "out", 16, 1) {}
  Tensor operator()(const Tensor& x) const { return out(hidden(x, Activation::silu)); }  // [n, 2] -> [n, 1]
  Linear hidden, out;
};

using Batch = std::pair<std::vector<real>, std::vector<real>>;  // two clouds of points, [rows, 2]

// A critic of the two clouds; the penalty mean (|slope| - 1)^2 keeps its slope near 1 (Gulrajani et al. 2017).
struct Training {
  Batch draw() {
    const Tensor given = normal({kRows, 2}, drawn++, 1), made = normal({kRows, 2}, drawn++, -1);
    return {{given.values().begin(), given.values().end()}, {made.values().begin(), made.values().end()}};
  }

  double step(const Batch& batch) {
    tape().clear();
    const Tensor given = tensor({kRows, 2}, batch.first), made = tensor({kRows, 2}, batch.second);
    const Tensor x = variable({kRows, 2}, ((given + made) * real{0.5}).values());
    backward(sum(judge(x)));  // its contribution to the parameters' gradients is discarded
    parameters.zero_gradients();
    const Tensor slopes = variable({kRows, 2}, x.grad()), lengths = sqrt(sum(slopes * slopes, 1));
    const Tensor loss = mean(judge(made)) - mean(judge(given)) + kPenalty * mean(square(lengths - 1));
    backward(loss);
    const double value = loss.item();
    slope = mean(lengths).item();
    const std::vector<real> between(x.values().begin(), x.values().end());
    const std::vector<real> u(slopes.grad().begin(), slopes.grad().end());  // d penalty / d slope
    const SecondDerivative penalty = differentiate_gradient(parameters, [&](double h) {
      return sum(judge(tensor({kRows, 2}, between) + tensor({kRows, 2}, u) * h));
    });
    for (std::size_t i = 0; i < penalty.value.size(); ++i) parameters.gradients()[i] += penalty.value[i];
    error = std::max(error, penalty.error);
    adam.step(0.01);
    return value;
  }

  Parameters parameters{/*seed=*/3};
  Critic judge{parameters.root()};
  Adam adam{parameters};
  std::uint64_t drawn = 0;
  double slope = 0, error = 0;  // the mean slope of the last step; the worst estimated error of a penalty's gradient
};

int main() {
  // Logistic regression on two clouds of points, which overlap: each Newton step doubles the number of correct digits.
  Parameters parameters(/*seed=*/1);
  const Linear line(parameters.root() / "line", 2, 1, {.init = init_zeros()});
  const auto loss = [&] {
    const Tensor x = concat({normal({50, 2}, 1, -0.7), normal({50, 2}, 2, 0.7)}, 0);
    return binary_cross_entropy_with_logits(line(x), concat({zeros({50, 1}), ones({50, 1})}, 0));
  };
  std::printf("sharpness at the start: %.4f\n", sharpness(parameters, loss));
  double norm = 1;
  for (int step = 0; step < 7; ++step) {
    tape().clear();
    parameters.zero_gradients();
    tape().backward(loss());
    const std::vector<real> gradient(parameters.gradients().begin(), parameters.gradients().end());
    norm = std::sqrt(dot(gradient, gradient));
    std::printf("Newton step %d: |gradient| %.1e\n", step, norm);
    const std::vector<real> d = solve(parameters, loss, gradient);
    for (std::size_t i = 0; i < d.size(); ++i) parameters.edit()[i] -= d[i];
  }

  Training training;
  for (int step = 0; step < 400; ++step) training.step(training.draw());
  std::printf("critic: mean slope %.3f; a penalty's gradient to %.1e\n", training.slope, training.error);
  return norm < 1e-9 && std::abs(training.slope - 1) < 0.2 && training.error < 1e-7 ? 0 : 1;
}
