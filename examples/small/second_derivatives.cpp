// Second derivatives of any model, as checked differences of gradients: the sharpest direction of a loss by
// Hessian-vector products, a step of Newton's method, and a critic trained with a gradient penalty.
// docs/second-derivatives.md explains. Linked to seppo::f64: in single precision five digits are right instead of
// twelve.
#include <seppo/autograd/ops.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/layers/basic.h>
#include <seppo/nn/optim/optimisers.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

using namespace seppo;

double dot(std::span<const real> a, std::span<const real> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Tensor normal(const Shape& shape, std::uint64_t index, double shift = 0) {
  RandomStream random(/*seed=*/1, Purpose::data, index);
  return randn(shape, random) + static_cast<real>(shift);
}

// The largest eigenvalue of the Hessian, by power iteration: 2 / it is the largest stable step of gradient descent.
double sharpness(Parameters& parameters, const std::function<Tensor()>& loss) {
  std::vector<real> v(parameters.values().size());
  RandomStream random(/*seed=*/2, Purpose::test);
  for (real& x : v) x = static_cast<real>(random.normal());
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
  explicit Critic(const Scope& s) : in(s / "in", 2, 16), out(s / "out", 16, 1) {}
  Tensor operator()(const Tensor& x) const { return out(silu(in(x))); }  // [n, 2] -> [n, 1]
  Linear in, out;
};

int main() {
  // Logistic regression on two clouds of points, which overlap: Newton's method doubles the right digits.
  Parameters parameters(/*seed=*/1);
  const Linear line(parameters.root() / "line", 2, 1, {.init = init_zeros()});
  const auto loss = [&] {
    const Tensor x = concat({normal({50, 2}, 1, -0.7), normal({50, 2}, 2, 0.7)}, 0);
    const Tensor labels = concat({zeros({50, 1}), ones({50, 1})}, 0);
    return binary_cross_entropy_with_logits(line(x), labels);
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
    for (std::size_t i = 0; i < d.size(); ++i) parameters.values()[i] -= d[i];
  }

  // A critic between two clouds, whose slope the penalty mean (|slope| - 1)^2 brings to 1 (Gulrajani et al. 2017).
  Parameters of_critic(/*seed=*/3);
  const Critic critic(of_critic.root());
  Adam adam(of_critic);
  constexpr int kRows = 64, kPenalty = 10;
  double slope = 0, error = 0;
  for (int step = 0; step < 400; ++step) {
    tape().clear();
    const auto seed = static_cast<std::uint64_t>(step);
    const Tensor real_data = normal({kRows, 2}, 2 * seed, 1), made = normal({kRows, 2}, 2 * seed + 1, -1);
    const Tensor x = variable({kRows, 2}, ((real_data + made) * real{0.5}).values());
    tape().backward(sum(critic(x)));  // the slopes; what it adds to the parameters' gradients is not wanted
    of_critic.zero_gradients();
    std::vector<real> between(x.values().begin(), x.values().end()), u;  // d penalty / d slope
    slope = 0;
    for (std::size_t r = 0; r < kRows; ++r) {
      const double gx = x.grad()[2 * r], gy = x.grad()[2 * r + 1], length = std::hypot(gx, gy);
      const double factor = 2 * kPenalty * (1 - 1 / length) / kRows;
      u.insert(u.end(), {static_cast<real>(factor * gx), static_cast<real>(factor * gy)});
      slope += length / kRows;
    }
    tape().backward(mean(critic(made)) - mean(critic(real_data)));
    const SecondDerivative penalty = differentiate_gradient(of_critic, [&](double h) {
      return sum(critic(tensor({kRows, 2}, between) + tensor({kRows, 2}, u) * static_cast<real>(h)));
    });
    for (std::size_t i = 0; i < penalty.value.size(); ++i) of_critic.gradients()[i] += penalty.value[i];
    error = std::max(error, penalty.error);
    adam.step(0.01);
  }
  std::printf("critic: mean slope %.3f between the clouds; the worst estimated error of a penalty's gradient %.1e\n",
              slope, error);
  return norm < 1e-9 && std::abs(slope - 1) < 0.2 && error < 1e-7 ? 0 : 1;
}
