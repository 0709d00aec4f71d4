// LoRA (Hu et al. 2021): a trained classifier learns another task through two low-rank matrices beside each of its
// weights, W + B A, while W stays frozen. B starts at zero, so the adapted model starts out equal to the trained one.
// Takes one second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

using namespace seppo;

constexpr int kBatch = 64, kHidden = 64, kClasses = 4, kRank = 2;
constexpr double kTurn = 0.5;  // of the other task, in radians

struct Batch {
  std::vector<double> points;  // [batch, 2], N(0, 1)
  std::vector<int> classes;    // spiral sectors: by the angle plus the distance from the centre
};

Batch draw(RandomStream& random, double turn) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    const double x = random.normal(), y = random.normal();
    const double angle = (std::atan2(y, x) + std::hypot(x, y) + turn) * kClasses / (2 * std::numbers::pi);
    batch.points.push_back(x);
    batch.points.push_back(y);
    batch.classes.push_back(static_cast<int>(std::floor(angle) + 2 * kClasses) % kClasses);
  }
  return batch;
}

// A linear map with its adapter, whose parameters have a scope of their own.
struct Adapted {
  Adapted(const Scope& s, const Scope& adapter, int in, int out)
      : base(s, in, out),
        a(adapter.parameter("a", {kRank, in}, init_normal(1 / std::sqrt(in)))),
        b(adapter.parameter("b", {out, kRank}, init_zeros())) {}
  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {
    return linear(x, base.weight + matmul(b, a), base.bias, activation);
  }
  Linear base;
  Tensor a, b;
};

struct Classifier {
  explicit Classifier(const Scope& s)
      : first(s / "first", s / "lora" / "first", 2, kHidden),
        mid(s / "mid", s / "lora" / "mid", kHidden, kHidden),
        out(s / "out", s / "lora" / "out", kHidden, kClasses) {}
  Tensor operator()(const std::vector<double>& points) const {  // [batch, classes]
    const Tensor x = tensor({points.size() / 2, 2}, points);
    return out(mid(first(x, Activation::relu), Activation::relu));
  }
  Adapted first, mid, out;
};

struct Training {
  Training() {
    Adam first(parameters);
    parameters.freeze("lora.");
    for (int step = 0; step < 1000; ++step) learn(first, ::draw(random, 0));
    parameters.freeze("");
    parameters.freeze("lora.", false);
  }
  Batch draw() { return ::draw(random, kTurn); }
  double step(const Batch& batch) { return learn(adam, batch); }

  double learn(Adam& optimiser, const Batch& batch) {
    tape().clear();
    const Tensor loss = cross_entropy(model(batch.points), batch.classes);
    backward(loss);
    optimiser.step(3e-3);
    return loss.item();
  }
  double right(double turn) const {  // of new points
    RandomStream points(/*seed=*/1, Purpose::test);
    double sum = 0;
    for (int n = 0; n < 50; ++n) {
      const Inference inference;
      const Batch batch = ::draw(points, turn);
      sum += accuracy(model(batch.points), batch.classes);
    }
    return 100 * sum / 50;
  }

  Parameters parameters{/*seed=*/1};
  Classifier model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  const std::vector<real> before(training.model.mid.base.weight.values().begin(),
                                 training.model.mid.base.weight.values().end());
  std::printf("trained: %.1f %% of its task, %.1f %% of the other\n", training.right(0), training.right(kTurn));
  for (int step = 0; step < 1000; ++step) training.step(training.draw());
  const double reached = training.right(kTurn);
  const auto after = training.model.mid.base.weight.values();
  const bool is_frozen = std::equal(before.begin(), before.end(), after.begin());
  std::printf(
      "adapted: %.1f %% of the other, by %zu parameters beside %d that %s\n", reached, training.parameters.count(),
      2 * kHidden + kHidden * kHidden + kHidden * kClasses + 2 * kHidden + kClasses, is_frozen ? "stayed" : "moved");
  return reached >= 90 && is_frozen ? 0 : 1;
}
