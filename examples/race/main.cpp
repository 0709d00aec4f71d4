// race: a recurrent network, convolutions and a Transformer learn the same task, over longer and longer sequences.
#include "app/command_line.h"
#include "app/run.h"
#include "race/model.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <fmt/format.h>

#include <bit>
#include <ctime>
#include <iostream>
#include <numeric>
#include <string>

namespace race {
namespace {

using nlohmann::json;

constexpr int kBatch = 32, kTested = 1000;

std::span<const char* const> enum_names(Kind) {
  static constexpr const char* kNames[] = {"GRU", "convolution", "dilated convolution", "Transformer"};
  return kNames;
}

// The processor time that this process has taken on all its threads.
double processor_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

struct Batch {
  std::vector<int> digits, first;
};

Batch draw(std::uint64_t seed, int length, std::span<const int> rows) {
  Batch batch;
  for (const int row : rows) {
    seppo::RandomStream random(seed, seppo::Purpose::data, static_cast<std::uint32_t>(row));
    for (int i = 0; i < length; ++i) batch.digits.push_back(random.index(kDigits));
    batch.first.push_back(batch.digits[batch.digits.size() - static_cast<std::size_t>(length)]);
  }
  return batch;
}

struct Finish {
  double right = 0, ms = 0, mb = 0;  // a share; of a step; of its tape
  std::size_t parameters = 0;
  std::optional<int> path = {};
};

Finish run_race(Kind kind, int length, int steps, std::uint64_t seed) {
  seppo::Parameters parameters(seed);
  const Network network(parameters.root(), kind, length);
  const auto loss = [&](std::span<const int> rows) {
    const Batch batch = draw(seed, length, rows);
    return seppo::classification_loss(network(batch.digits), batch.first);
  };
  Finish finish{.parameters = parameters.count(), .path = network.path()};
  seppo::Trainer trainer(
      parameters,
      {.lr = 3e-3, .schedule = seppo::ScheduleKind::cosine, .warmup_steps = steps / 10, .steps = steps, .seed = seed});
  seppo::Sampler sampler(static_cast<std::size_t>(steps) * kBatch, {.batch_size = kBatch, .seed = seed});
  const double start = processor_ms();
  while (trainer.steps() < steps) trainer.step(sampler.next(), loss);
  finish.ms = (processor_ms() - start) / steps;

  std::vector<int> test(kTested);
  std::iota(test.begin(), test.end(), steps * kBatch);
  finish.right =
      seppo::evaluate(test, [&](std::span<const int> rows) -> seppo::Sums { return loss(rows); }).mean("correct");
  seppo::Tape own;
  const seppo::UseTape use(own);
  own.backward(loss(std::span<const int>(test).first(kBatch)).loss);
  parameters.zero_gradients();
  finish.mb = static_cast<double>(own.used()) / 1e6;
  return finish;
}

int run(const examples::Arguments& arguments) {
  int longest = 128, steps = 600, threads = 1;
  std::uint64_t seed = 0;
  bool as_json = false;
  examples::CommandLine line(
      "race [options]",
      "A gated recurrent network, convolutions, dilated convolutions and a Transformer of about equal size read "
      "digits, "
      "and say at the last one which was the first. Prints, for sequences of 8, 16, 32 ... digits, how many answers "
      "are "
      "right, the processor time of a training step, the memory of its tape, and how many operations lie between the "
      "first position and the last.");
  line("longest", longest, {8, 4096}, "digits of the longest sequences: 8, 16, 32 ...");
  line("steps", steps, {10, 1e6}, "steps of each training, of 32 sequences");
  line("seed", seed, "random seed");
  line("threads", threads, {0, 256}, examples::kThreadsHelp);
  line("json", as_json, examples::kJsonHelp);
  if (!line.parse(arguments)) return 0;
  if (!std::has_single_bit(static_cast<unsigned>(longest)))
    throw examples::UsageError(fmt::format("--longest: {} is none of 8, 16, 32 ...", longest));
  examples::use_threads(threads);

  json results = json::array();
  std::cout << fmt::format(
      "Right answers to 1,000 new sequences after {} steps of 32. Guessing gives 10 %.\n\n{:>6}  "
      "{:<20} {:>10} {:>8} {:>8} {:>8} {:>6}\n",
      steps, "length", "network", "parameters", "right, %", "ms/step", "MB", "path");
  for (int length = 8; length <= longest; length *= 2)
    for (const Kind kind : {Kind::gru, Kind::convolution, Kind::dilated, Kind::transformer}) {
      const Finish f = run_race(kind, length, steps, seed);
      const char* const name = enum_names(kind)[static_cast<std::size_t>(kind)];
      const std::string path = f.path ? std::to_string(*f.path) : "none";
      std::cout << fmt::format("{:>6}  {:<20} {:>10} {:>8.1f} {:>8.2f} {:>8.2f} {:>6}\n", length, name, f.parameters,
                               100 * f.right, f.ms, f.mb, path)
                << std::flush;
      results.push_back({{"length", length},
                         {"network", name},
                         {"parameters", f.parameters},
                         {"right", f.right},
                         {"ms", f.ms},
                         {"mb", f.mb},
                         {"path", f.path ? json(*f.path) : json(nullptr)}});
    }
  if (as_json) std::cout << json{{"steps", steps}, {"rows", results}}.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace race

int main(int argc, char** argv) { return examples::run_command(argc, argv, race::run); }
