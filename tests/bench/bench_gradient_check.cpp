// The sensitivity of gradient_check: the smallest relative error in one element of a gradient that it detects, by the
// size of the parameter. Prints the table in docs/check-your-gradients.md. Linked with seppo::f64.
#include <seppo/autograd/ops.h>
#include <seppo/nn/gradient_check.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace seppo;

namespace {

constexpr int kRows = 3;

// sum tanh(x W); the gradient with respect to W has a relative error `fault` in one element, or in all of them (-1).
struct Model {
  explicit Model(int size) : n(size) {
    w = parameters.root().parameter("w", {n, n}, init_normal(1 / std::sqrt(n)));
    RandomStream random(2, Purpose::test);
    for (int i = 0; i < kRows * n; ++i) values.push_back(static_cast<real>(random.normal()));
  }

  Tensor loss(int element, double fault) const {
    const Tensor x = tensor({kRows, n}, values), y = matmul(x, w), wrong = zeros({});
    record("fault", wrong, {w}, [=, this] {
      const std::size_t all = w.numel(), one = static_cast<std::size_t>(element);
      for (std::size_t e = element < 0 ? 0 : one; e < (element < 0 ? all : one + 1); ++e) {
        double slope = 0;
        for (std::size_t i = 0; i < kRows; ++i) {
          const double t = std::tanh(double{y.data()[i * y.cols() + e % w.cols()]});
          slope += double{x.data()[i * x.cols() + e / w.cols()]} * (1 - t * t);
        }
        grad_of(w)[e] += static_cast<real>(fault * slope);
      }
    });
    return sum(seppo::tanh(y)) + wrong;
  }

  bool sees(int element, double fault, int directions, std::uint64_t seed) {
    return !gradient_check(parameters, [&] { return loss(element, fault); }, {.directions = directions, .seed = seed})
                .passed;
  }

  int n;
  Parameters parameters{1};
  Tensor w;
  std::vector<real> values;
};

// The smallest fault of 1, 1/3, 1/10, ... that is detected before the first one that is not.
double smallest_seen(Model& model, int element, int directions, std::uint64_t seed) {
  double seen = INFINITY;
  for (int i = 0; i < 22; ++i) {
    const double fault = std::pow(10, -(i / 2)) * (i % 2 == 0 ? 1 : 1 / 3.0);
    if (!model.sees(element, fault, directions, seed)) break;
    seen = fault;
  }
  return seen;
}

}  // namespace

// bench_gradient_check [trials per size] [largest width]
int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::atoi(argv[1]) : 20, most = argc > 2 ? std::atoi(argv[2]) : 512;
  std::printf(
      "| parameter | elements | one element, 1 direction: half, all | 8 directions: half, all | all elements |\n");
  std::printf("|---|---|---|---|---|\n");
  for (int n = 8; n <= most; n *= 4) {
    Model model(n);
    std::printf("| [%d, %d] | %d |", n, n, n * n);
    RandomStream random(5, Purpose::test, static_cast<std::uint64_t>(n));
    for (const int directions : {1, 8}) {
      std::vector<double> faults;
      for (int t = 0; t < trials; ++t)
        faults.push_back(smallest_seen(model, static_cast<int>(random.below(static_cast<std::uint32_t>(n * n))),
                                       directions, static_cast<std::uint64_t>(t)));
      std::ranges::sort(faults);
      std::printf(" %.0e, %.0e |", faults[faults.size() / 2], faults.back());
    }
    std::printf(" %.0e |\n", smallest_seen(model, -1, 1, 0));
    std::fflush(stdout);
  }
}
