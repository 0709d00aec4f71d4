// A mixture of experts (Shazeer et al. 2017): a gate routes each input to the top two of eight small networks, and only
// these are computed; an auxiliary loss balances the load (Fedus et al. 2022). There are three kinds of inputs, each
// with its own target function. Takes one second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kBatch = 128, kKinds = 3, kExperts = 8, kTop = 2, kSize = 8, kHidden = 16;
constexpr double kBalance = 0.3;

struct Batch {
  std::vector<double> x, y;  // [batch, size]
};

// For each kind, the centre of its inputs and its target function, a matrix.
struct World {
  World() {
    RandomStream random(/*seed=*/1, Purpose::data, /*index=*/1);
    for (auto& number : centres) number = 3 * random.normal();
    for (auto& number : laws) number = 0.5 * random.normal();
  }

  Batch draw(RandomStream& random) const {
    Batch batch;
    for (int n = 0; n < kBatch; ++n) {
      const std::size_t kind = random.below(kKinds);
      std::array<double, kSize> deviation;
      for (double& d : deviation) d = random.normal();
      for (std::size_t i = 0; i < kSize; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < kSize; ++j) sum += laws[(kind * kSize + i) * kSize + j] * deviation[j];
        batch.x.push_back(centres[kind * kSize + i] + deviation[i]);
        batch.y.push_back(sum);
      }
    }
    return batch;
  }

  std::array<double, kKinds * kSize> centres;
  std::array<double, kKinds * kSize * kSize> laws;
};

struct Expert {
  explicit Expert(const Scope& s) : up(s / "up", kSize, kHidden), down(s / "down", kHidden, kSize) {}
  Tensor operator()(const Tensor& x) const { return down(silu(up(x))); }
  Linear up, down;
};

struct Mixture {
  explicit Mixture(const Scope& s) : gate(s / "gate", kSize, kExperts, {.bias = false}) {
    for (int i = 0; i < kExperts; ++i) experts.emplace_back(s / "experts" / i);
  }

  struct Output {
    Tensor y;          // [rows, size]
    Tensor imbalance;  // 1 if the load and the gate's weights are balanced; 8 if one expert does everything
  };
  Output operator()(const Tensor& x) const {  // [rows, size]
    const Tensor trust = softmax(gate(x));    // [rows, experts]
    const Extreme top = topk(trust, kTop);    // [rows, top]
    const Tensor weights = reshape(top.values / sum(top.values, 1, /*keepdim=*/true), {-1, 1});
    Tensor y = zeros_like(x);
    std::vector<double> loads;
    for (int e = 0; e < kExperts; ++e) {
      std::vector<int> places, rows;  // this expert's places in the top-k lists of all rows, and these rows
      for (int place = 0; const int chosen : top.indices) {
        if (chosen == e) places.push_back(place), rows.push_back(place / kTop);
        ++place;
      }
      loads.push_back(static_cast<double>(rows.size()) / static_cast<double>(top.indices.size()));
      const Tensor part = experts[static_cast<std::size_t>(e)](index_select(x, 0, rows));
      y = index_add(y, 0, rows, part * index_select(weights, 0, places));
    }
    return {y, kExperts * sum(tensor({kExperts}, loads) * mean(trust, 0))};
  }

  Linear gate;
  std::vector<Expert> experts;
};

struct Training {
  Batch draw() { return world.draw(random); }

  double step(const Batch& batch) {
    tape().clear();
    const auto [y, imbalance] = model(tensor({kBatch, kSize}, batch.x));
    const Tensor error = mse_loss(y, tensor({kBatch, kSize}, batch.y));
    backward(error + kBalance * imbalance);
    adam.step(5e-3);
    return error.item();
  }

  World world;
  Parameters parameters{/*seed=*/1};
  Mixture model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  for (int step = 1; step <= 1500; ++step) {
    const double error = training.step(training.draw());
    if (step % 250 == 0) std::printf("step %d: mean squared error %.4f\n", step, error);
  }
  const Inference inference;
  RandomStream random(/*seed=*/1, Purpose::test);
  const Batch batch = training.world.draw(random);
  const Tensor y = tensor({kBatch, kSize}, batch.y);
  const auto [guess, imbalance] = training.model(tensor({kBatch, kSize}, batch.x));
  const double explained = 1 - (mse_loss(guess, y) / mean(square(y))).item();
  const double balance = imbalance.item();
  std::printf("%.1f %% of the variance explained, imbalance %.2f\n", 100 * explained, balance);
  return explained >= 0.93 && balance <= 1.2 ? 0 : 1;
}
