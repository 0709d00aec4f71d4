// Contrastive learning of pairs, as CLIP's of images and texts (Radford et al. 2021): two towers embed two views of
// things, such that each view finds the other one among all of a batch. docs/losses-that-compare.md walks through it.
// Takes one second.
#include <seppo/seppo.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

using namespace seppo;

constexpr int kThing = 6, kView = 16, kWidth = 8, kBatch = 96, kSteps = 300, kTest = 200;
constexpr double kTemperature = 0.1;

// Two views of each thing: other functions of its 6 numbers, with noise.
struct Views {
  Views(std::span<const int> things, Purpose purpose) {
    for (const int thing : things) {
      RandomStream random(/*seed=*/1, purpose, thing);
      double z[kThing];
      for (double& v : z) v = random.normal();
      for (int i = 0; i < kView; ++i) {
        double a = 0, b = 0;
        for (int j = 0; j < kThing; ++j) {
          a += std::sin(1.0 + i + 2.3 * i * j) * z[j];
          b += std::cos(2.0 + i + 1.7 * i * j) * z[j];
        }
        first.push_back(std::tanh(a) + 0.1 * random.normal());
        second.push_back(std::tanh(b) + 0.1 * random.normal());
      }
    }
  }
  std::vector<double> first, second;  // [things, kView]
};

struct Tower {
  explicit Tower(const Scope& s) : up(s / "up", kView, 64), down(s / "down", 64, kWidth) {}

  Tensor operator()(const std::vector<double>& views) const {  // [things, kWidth], of length 1
    const int things = static_cast<int>(views.size()) / kView;
    const Tensor x = down(silu(up(tensor({things, kView}, views))));
    return x / sqrt(sum(square(x), -1, true));
  }

  Linear up, down;
};

struct Pair {
  explicit Pair(const Scope& s) : first(s / "first"), second(s / "second") {}

  Tensor scores(const Views& views) const {  // of each first view with each second: [things, things]
    return matmul(first(views.first), transpose(second(views.second))) / kTemperature;
  }

  Tower first, second;
};

std::vector<int> count_to(int n) {
  std::vector<int> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

using Batch = Views;

struct Training {
  Batch draw() { return Views(sampler.next(), Purpose::data); }

  double step(const Batch& batch) {
    const std::vector<int> own = count_to(kBatch);
    const auto loss = [&](std::span<const int>) {
      const Tensor scores = model.scores(batch);
      const Tensor both = cross_entropy(scores, own) + cross_entropy(transpose(scores), own);
      return mean_loss(both / 2.0, kBatch);
    };
    return trainer.step(own, loss).loss;
  }

  Parameters parameters{/*seed=*/1};
  Pair model{parameters.root()};
  Trainer trainer{parameters, {.lr = 3e-3, .whole_batch = true}};
  Sampler sampler{/*examples=*/kSteps * kBatch, {.batch_size = kBatch}};
};

int main() {
  Training training;
  for (int step = 1; step <= kSteps; ++step) {
    const double loss = training.step(training.draw());
    if (step % 100 == 0) std::printf("step %d: loss %.3f\n", step, loss);
  }

  const Inference inference;
  const std::vector<int> things = count_to(kTest);
  const double found = accuracy(training.model.scores(Views(things, Purpose::test)), things);
  std::printf("%.1f %% of %d new things are found among all by their other view\n", 100 * found, kTest);
  return found > 0.85 ? 0 : 1;
}
