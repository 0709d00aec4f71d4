// Learning rates without a schedule: a finder, a plateau that halves the rate, and early stopping. A network learns a
// landscape from few, noisy heights; trained for too long, it would learn the noise. docs/learning-rates.md walks
// through it. Takes one second.
#include <seppo/seppo.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <vector>

using namespace seppo;

constexpr int kTrain = 300, kValidation = 300, kHidden = 64;
constexpr double kNoise = 0.1;

struct Landscape {
  explicit Landscape(const Scope& s)
      : up(s / "up", 2, kHidden), mid(s / "mid", kHidden, kHidden), down(s / "down", kHidden, 1) {}

  ShardLoss operator()(std::span<const int> places) const {
    std::vector<double> where, heights;
    for (const int place : places) {
      RandomStream random(/*seed=*/1, Purpose::data, place);
      const double east = random.uniform(), north = random.uniform();
      where.insert(where.end(), {east, north});
      heights.push_back(std::sin(7 * east) * std::cos(5 * north) + kNoise * random.normal());
    }
    const std::size_t n = places.size();
    const Tensor y = down(tanh(mid(tanh(up(tensor({n, 2}, where))))));
    return {mse_loss(y, tensor({n, 1}, heights), Reduction::sum), n};
  }

  Linear up, mid, down;
};

// The rate grows from step to step until the loss explodes; a fifth of the last one is a good start (Smith 2017).
// Values and gradients are as before when it returns.
double find_rate(Parameters& parameters, const Landscape& loss) {
  const Snapshot state(parameters, "while a learning rate is sought");
  Sgd sgd(parameters, {.momentum = 0.9});
  Trainer trainer(parameters, sgd, {.clip_norm = 0, .on_nan = OnNan::skip});
  trainer.set_schedule([](std::int64_t step) { return 1e-4 * std::pow(1.1, step); });
  Sampler sampler(kTrain, {.batch_size = 50});
  double least = std::numeric_limits<double>::infinity();
  for (StepResult now; !now.is_skipped && now.loss <= 4 * least;) {
    now = trainer.step(sampler.next(), loss);
    least = std::min(least, now.loss);
  }
  return trainer.lr() / 5;
}

int main() {
  Parameters parameters(/*seed=*/1);
  const Landscape loss(parameters.root());
  std::vector<int> validation(kValidation);
  std::iota(validation.begin(), validation.end(), kTrain);

  Sgd sgd(parameters, {.momentum = 0.9});
  Trainer trainer(parameters, sgd);
  trainer.set_lr(find_rate(parameters, loss));
  std::printf("found the rate %.3f\n", trainer.lr());

  Sampler sampler(kTrain, {.batch_size = 50});
  std::vector<real> best(parameters.values().begin(), parameters.values().end());
  double least = std::numeric_limits<double>::infinity(), last = 0;
  for (int evaluations = 1, waited = 0; waited < 30; ++evaluations) {  // early stopping
    for (int step = 0; step < 30; ++step) trainer.step(sampler.next(), loss);
    last = evaluate(validation, loss).mean("loss");
    if (last < least) {
      least = last;
      waited = 0;
      best.assign(parameters.values().begin(), parameters.values().end());
    } else if (++waited % 10 == 0) {  // a plateau
      trainer.set_lr(trainer.lr() / 2);
      std::printf("evaluation %d: %.4f, best %.4f; the rate is now %.4f\n", evaluations, last, least, trainer.lr());
    }
  }
  std::ranges::copy(best, parameters.edit().begin());

  const double error = evaluate(validation, loss).mean("loss");
  std::printf("mean squared error at new places: %.4f; of the last model %.4f; the noise has %.4f\n", error, last,
              kNoise * kNoise);
  return error == least && error < 2.5 * kNoise * kNoise ? 0 : 1;
}
