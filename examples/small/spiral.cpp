// A first model: which arm of a spiral does a point lie on? docs/first-model.md walks through it.
#include <seppo/autograd/ops.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/layers/linear.h>
#include <seppo/nn/optim/schedule.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

using namespace seppo;

constexpr int kArms = 3;

struct Points {
  std::vector<real> xy;   // [points, 2], row-major
  std::vector<int> arms;  // 0, 1 or 2
};

Points spiral(int per_arm, RandomStream random) {
  Points points;
  for (int arm = 0; arm < kArms; ++arm)
    for (int i = 0; i < per_arm; ++i) {
      const double radius = static_cast<double>(i + 1) / per_arm;
      const double angle = 4 * radius + arm * 2 * std::numbers::pi / kArms + 0.1 * random.normal();
      points.xy.push_back(static_cast<real>(radius * std::cos(angle)));
      points.xy.push_back(static_cast<real>(radius * std::sin(angle)));
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

// The model's answers for these points, outside of training.
std::vector<int> answers(const Mlp& model, const std::vector<real>& xy) {
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  return argmax(model(tensor({static_cast<int>(xy.size() / 2), 2}, xy)));
}

int main() {
  const Points train = spiral(100, {1, Purpose::data}), test = spiral(100, {2, Purpose::data});

  Parameters parameters(/*seed=*/1);
  const Mlp model(parameters.root(), 32);
  Adam adam(parameters, {.weight_decay = 0.01});
  const int steps = 500;
  const Schedule lr = cosine_schedule(/*lr=*/0.01, /*warmup_steps=*/20, steps);

  for (int step = 1; step <= steps; ++step) {
    tape().clear();
    const Tensor x = tensor({static_cast<int>(train.arms.size()), 2}, train.xy);
    const Tensor loss = cross_entropy(model(x), train.arms);
    tape().backward(loss);
    adam.step(lr(step));
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, static_cast<double>(loss.item()));
  }

  int right = 0;
  const std::vector<int> guesses = answers(model, test.xy);
  for (std::size_t i = 0; i < guesses.size(); ++i) right += guesses[i] == test.arms[i];
  std::printf("%d of %zu new points right\n", right, guesses.size());

  std::vector<real> grid;  // what it says everywhere
  for (int row = 0; row < 24; ++row)
    for (int col = 0; col < 48; ++col) {
      grid.push_back(static_cast<real>(col / 24.0 - 1));
      grid.push_back(static_cast<real>(1 - row / 12.0));
    }
  const std::vector<int> map = answers(model, grid);
  for (std::size_t i = 0; i < map.size(); ++i) std::printf("%c%s", " .o"[map[i]], i % 48 == 47 ? "\n" : "");
  return right >= 290 ? 0 : 1;
}
