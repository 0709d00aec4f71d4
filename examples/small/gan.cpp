// A generative adversarial network (Goodfellow et al. 2014): a generator learns to draw points from eight clusters on a
// circle; its only feedback is a critic that tells generated points from real ones. Each has its own parameters and
// optimiser; the critic is frozen while the generator learns from it. Takes one second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

using namespace seppo;

constexpr int kBatch = 128, kNoise = 2, kHidden = 64, kModes = 8;
constexpr double kSpread = 0.05;  // of a cluster, around a place on the unit circle

struct Batch {
  std::vector<double> points;  // [batch, 2]
  std::vector<double> noise;   // [batch, noise], N(0, 1)
};

Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    const double angle = random.below(kModes) * 2 * std::numbers::pi / kModes;
    batch.points.push_back(std::cos(angle) + kSpread * random.normal());
    batch.points.push_back(std::sin(angle) + kSpread * random.normal());
  }
  for (int i = 0; i < kBatch * kNoise; ++i) batch.noise.push_back(random.normal());
  return batch;
}

struct Mlp {
  Mlp(const Scope& s, int inputs, int outputs)
      : first(s / "first", inputs, kHidden), mid(s / "mid", kHidden, kHidden), out(s / "out", kHidden, outputs) {}
  Tensor operator()(const Tensor& x) const { return out(mid(first(x, Activation::relu), Activation::relu)); }
  Linear first, mid, out;
};

struct Training {
  Batch draw() { return ::draw(random); }

  // Returns the generator's loss.
  double step(const Batch& batch) {
    tape().clear();
    const Tensor drawn = generator(tensor({kBatch, kNoise}, batch.noise)), points = tensor({kBatch, 2}, batch.points);

    // -log p(given) - log(1 - p(drawn)), p = sigmoid(judge)
    critic.freeze("", false);
    backward(mean(softplus(-judge(points))) + mean(softplus(judge(detach(drawn)))));
    critic_adam.step(3e-3);

    // -log p(drawn), after the critic's step: its parameters may not change between forward and backward.
    critic.freeze("");
    const Tensor loss = mean(softplus(-judge(drawn)));
    backward(loss);
    adam.step(1e-3);
    return loss.item();
  }

  Parameters parameters{/*seed=*/1}, critic{/*seed=*/2};
  Mlp generator{parameters.root(), kNoise, 2}, judge{critic.root(), 2, 1};
  Adam adam{parameters, {.betas = {0.5, 0.9}}}, critic_adam{critic, {.betas = {0.5, 0.9}}};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  for (int step = 1; step <= 2000; ++step) {
    const double loss = training.step(training.draw());
    if (step % 500 == 0) std::printf("step %d: loss of the generator %.3f\n", step, loss);
  }

  // Where do new points lie?
  int modes[kModes] = {};
  int near = 0, all = 0;
  RandomStream random(/*seed=*/1, Purpose::test);
  for (int n = 0; n < 10; ++n) {
    const Inference inference;
    const Tensor drawn = training.generator(tensor({kBatch, kNoise}, draw(random).noise));
    for (int i = 0; i < kBatch; ++i, ++all) {
      const double x = drawn.at(i, 0), y = drawn.at(i, 1);
      const double turn = kModes * std::atan2(y, x) / (2 * std::numbers::pi);
      const int mode = (static_cast<int>(std::lround(turn)) + kModes) % kModes;
      const double angle = mode * 2 * std::numbers::pi / kModes;
      if (std::hypot(x - std::cos(angle), y - std::sin(angle)) > 4 * kSpread) continue;
      ++near;
      ++modes[mode];
    }
  }
  const auto covered = std::ranges::count_if(modes, [&](int n) { return n >= all / kModes / 4; });
  std::printf("%.1f %% of %d points within 4 deviations of a cluster; %d of %d clusters\n", 100.0 * near / all, all,
              static_cast<int>(covered), kModes);
  return near >= 0.8 * all && covered >= 7 ? 0 : 1;
}
