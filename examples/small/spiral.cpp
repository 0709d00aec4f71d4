// A first model: on which arm of a spiral does a point lie? docs/first-model.md walks through it.
#include <seppo/autograd/ops.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>
#include <vector>

using namespace seppo;

constexpr int kArms = 3;

struct Points {
  std::vector<double> xy;  // [points, 2], row-major
  std::vector<int> arms;   // 0, 1 or 2
  Tensor inputs() const { return tensor({arms.size(), 2}, xy); }
};

// The examples of these numbers: each is drawn from a random stream of its own.
Points spiral(std::span<const int> rows, Purpose purpose) {
  Points points;
  for (const int row : rows) {
    RandomStream random(/*seed=*/1, purpose, row);
    const int arm = row % kArms;
    const double radius = random.uniform();
    const double angle = 4 * radius + arm * 2 * std::numbers::pi / kArms + 0.1 * random.normal();
    points.xy.push_back(radius * std::cos(angle));
    points.xy.push_back(radius * std::sin(angle));
    points.arms.push_back(arm);
  }
  return points;
}

struct Mlp {
  Mlp(const Scope& s, int hidden)
      : in(s / "in", 2, hidden), mid(s / "mid", hidden, hidden), out(s / "out", hidden, kArms) {}

  Tensor operator()(const Tensor& x) const {  // [points, 2] -> [points, arms]
    return out(silu(mid(silu(in(x)))));
  }

  Linear in, mid, out;
};

int main() {
  Parameters parameters(/*seed=*/1);
  const Mlp model(parameters.root(), 32);
  Trainer trainer(parameters, {.lr = 0.01, .schedule = ScheduleKind::cosine, .warmup_steps = 20, .steps = 500});
  Sampler sampler(/*examples=*/300, {.batch_size = 100});

  for (int step = 1; step <= 500; ++step) {
    const StepResult now = trainer.step(sampler.next(), [&](std::span<const int> rows) {
      const Points points = spiral(rows, Purpose::data);
      return classification_loss(model(points.inputs()), points.arms);
    });
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, now.loss);
  }

  std::vector<int> rows(300);
  std::iota(rows.begin(), rows.end(), 0);
  const Points test = spiral(rows, Purpose::test);

  const Inference inference;
  const double right = accuracy(model(test.inputs()), test.arms);
  std::printf("%.1f %% of 300 new points right\n", 100 * right);

  std::vector<double> grid;  // where to draw its predictions
  for (int row = 0; row < 24; ++row)
    for (int col = 0; col < 48; ++col) {
      grid.push_back(col / 24.0 - 1);
      grid.push_back(1 - row / 12.0);
    }
  const std::vector<int> map = argmax(model(tensor({24 * 48, 2}, grid)));
  for (std::size_t i = 0; i < map.size(); ++i) std::printf("%c%s", " .o"[map[i]], i % 48 == 47 ? "\n" : "");
  return right >= 0.95 ? 0 : 1;
}
