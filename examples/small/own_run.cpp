// A training of one's own that loses nothing: `own_run`, and `own_run --resume` after Ctrl-C, a kill or a power cut.
#include <seppo/seppo.h>

#include <cstdio>
#include <exception>
#include <numeric>
#include <string_view>

using namespace seppo;

constexpr int kTrain = 2000, kValidation = 400;

int main(int argc, char** argv) try {
  Features points({2});  // of the plane, and whether x and y have the same sign
  std::vector<int> signs;
  RandomStream random(1, Purpose::data);
  for (int i = 0; i < kTrain + kValidation; ++i) {
    const double x = random.uniform() - 0.5, y = random.uniform() - 0.5;
    points.add({static_cast<real>(x), static_cast<real>(y)});
    signs.push_back(x * y > 0);
  }
  Parameters parameters(1);
  const Linear up(parameters.root() / "up", 2, 32), down(parameters.root() / "down", 32, 2);
  const auto loss = [&](std::span<const int> some) {
    const Tensor x = points.pick(some);
    return classification_loss(down(tanh(up(x))), pick(signs, some));
  };
  std::vector<int> validation(kValidation);
  std::iota(validation.begin(), validation.end(), kTrain);
  const auto evaluation = [&] {
    const Sums sums = evaluate(validation, loss);
    return Evaluation{.val_loss = sums.mean("loss"), .measures = {{"val_accuracy", sums.mean("correct")}}};
  };

  const bool is_resumed = argc > 1 && std::string_view(argv[1]) == "--resume";
  TrainingRun run(parameters,
                  {.epochs = 40, .best = "accuracy", .sampler = {.batch_size = 50}, .trainer = {.lr = 0.01}},
                  {.examples = kTrain, .digest = digest_of(points, signs), .loss = loss, .evaluate = evaluation},
                  {.folder = "runs/own", .resume = is_resumed, .overwrite = !is_resumed, .catch_signals = true});
  const RunResult result = run.train({.evaluated = [](const RunEvents::Evaluated& now) {
    std::printf("epoch %2d  %s\n", static_cast<int>(now.epoch), now.line.dump().c_str());
  }});
  const double accuracy = result.kept.measures["val_accuracy"];
  std::printf("%.1f %% of new points; the model is in runs/own\n", 100 * accuracy);
  return accuracy > 0.97 ? 0 : 1;
} catch (const Interrupted& e) {
  std::fprintf(stderr, "saved; own_run --resume goes on\n");
  return 128 + e.signal;
} catch (const std::exception& e) {
  std::fprintf(stderr, "own_run: %s\n", e.what());
  return 1;
}
