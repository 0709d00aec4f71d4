// Exact resumption in a custom loop: a training run that is stopped, saved, and continued with new objects ends with
// the same bytes as an uninterrupted run. Later steps depend on the parameters, Adam's moments, and the number of
// steps, which determines the learning rate, the position in the data and the dropout masks. `Trainer` has this built
// in: save() and load(). Takes half a second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/modules/dropout.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/schedule.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

using namespace seppo;

constexpr int kExamples = 500, kSteps = 600, kHidden = 64;

struct Batch {
  std::vector<double> x, y;  // [examples, 2], [examples, 1]
  Tensor inputs() const { return tensor({y.size(), 2}, x); }
  Tensor targets() const { return tensor({y.size(), 1}, y); }
};

// The examples of these numbers: positions in a landscape, and the heights there.
Batch examples(std::span<const int> rows, Purpose purpose) {
  Batch batch;
  for (const int row : rows) {
    RandomStream random(/*seed=*/1, purpose, row);
    const double east = 2 * random.uniform() - 1, north = 2 * random.uniform() - 1;
    batch.x.insert(batch.x.end(), {east, north});
    batch.y.push_back(std::sin(3 * east) * std::cos(2 * north));
  }
  return batch;
}

struct Model {
  explicit Model(const Scope& s)
      : first(s / "first", 2, kHidden), mid(s / "mid", kHidden, kHidden), last(s / "last", kHidden, 1) {}
  Tensor operator()(const Tensor& x) const { return last(dropout(mid(first(x, Activation::relu), Activation::relu))); }
  Linear first, mid, last;
  Dropout dropout{0.02};
};

struct Training {
  explicit Training(std::uint64_t seed = 1) : parameters(seed) {}

  Batch draw() { return examples(sampler.next(), Purpose::data); }

  double step(const Batch& batch) {
    tape().clear();
    tape().random = {.seed = 1, .step = static_cast<std::uint32_t>(adam.steps())};  // keys the dropout masks
    const Tensor loss = mse_loss(model(batch.inputs()), batch.targets());
    backward(loss);
    adam.step(schedule(adam.steps() + 1));
    return loss.item();
  }
  double run_to(std::int64_t end) {
    double loss = 0;
    while (adam.steps() < end) loss = step(draw());
    return loss;
  }

  void save(const std::string& file) const {
    save_checkpoint(file, parameters, {{"steps", std::to_string(adam.steps())}}, moments());
  }
  void load(const SafeTensorsFile& file) {
    load_checkpoint(file, parameters, moments());
    adam.set_steps(std::stoll(file.metadata().at("steps")));
    sampler.seek(adam.steps());
  }
  std::array<OptimizerBlock, 2> moments() const {
    return {{{"adam.m", adam.first_moments()}, {"adam.v", adam.second_moments()}}};
  }

  Parameters parameters;
  Model model{parameters.root()};
  Adam adam{parameters};
  Schedule schedule{ScheduleKind::cosine, /*lr=*/0.01, /*min_lr=*/0, /*warmup_steps=*/20, kSteps};
  Sampler sampler{kExamples, {.batch_size = 50}};
};

bool same_bytes(std::span<const real> a, std::span<const real> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

int main() {
  Training whole;
  const double loss = whole.run_to(kSteps);
  std::printf("trained %d steps at a stretch: loss %.5f\n", kSteps, loss);

  bool all_same = true;
  for (const int stop : {1, 137, 599}) {
    auto training = std::make_unique<Training>();
    training->run_to(stop);
    training->save("resume.safetensors");
    training = std::make_unique<Training>(/*seed=*/2);  // nothing of the first one is left
    training->load(SafeTensorsFile("resume.safetensors"));
    training->run_to(kSteps);
    bool same = same_bytes(whole.parameters.values(), training->parameters.values());
    for (std::size_t i = 0; i < 2; ++i) same &= same_bytes(whole.moments()[i].values, training->moments()[i].values);
    std::printf("stopped after %d steps and continued: %s\n", stop, same ? "the same bytes" : "other bytes");
    all_same &= same;
  }
  std::filesystem::remove("resume.safetensors");

  const Inference inference;
  std::vector<int> rows(200);
  std::iota(rows.begin(), rows.end(), 0);
  const Batch test = examples(rows, Purpose::test);
  const double error = mse_loss(whole.model(test.inputs()), test.targets()).item();
  std::printf("mean squared error at 200 new places: %.5f\n", error);
  return all_same && error < 0.002 ? 0 : 1;
}
