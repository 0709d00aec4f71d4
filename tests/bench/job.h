// What jobs have in common: options, random batches, how steps are timed, and a lower bound on their time.
#pragma once

#include "app/command_line.h"
#include "app/memory.h"

#include <seppo/autograd/blas/multiply.h>
#include <seppo/autograd/core/compact_matrix.h>
#include <seppo/autograd/core/matmul_precision.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/train/ranks.h>
#include <seppo/nn/train/trainer.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace jobs {

using namespace seppo;
using Clock = std::chrono::steady_clock;

// When the program started, or its last measurement ended.
inline Clock::time_point started = Clock::now();

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A lower bound on the time of a training step on this machine: its products at the speed of a large product on every
// thread, and Adam's traffic, which reads four and writes three numbers per parameter, at the speed of a copy.
struct Floor {
  double multiplications = 0;  // and as many additions; 0: unknown
  std::size_t parameters = 0;

  // Scaled from a large product on every thread; to be measured next to each step, since machine speeds vary over time.
  double products_ms(int threads) const {
    constexpr std::size_t kSize = 768;
    const double ms = fastest_ms(threads, 3, 3 * kSize * kSize, [&](real* memory) {
      constexpr std::size_t kNumbers = kSize * kSize;
      multiply({memory + 2 * kNumbers, kSize, kSize}, {memory, kSize, kSize}, {memory + kNumbers, kSize, kSize});
    });
    return ms * multiplications / (static_cast<double>(threads) * kSize * kSize * kSize);
  }

  double adam_ms(int threads) const {
    constexpr std::size_t kNumbers = std::size_t{1} << 23;
    const double ms =
        fastest_ms(threads, 10, 2 * kNumbers, [&](real* memory) { std::copy_n(memory, kNumbers, memory + kNumbers); });
    return ms * 3.5 * static_cast<double>(parameters) / (static_cast<double>(threads) * kNumbers);
  }

 private:
  // The fastest time of f running on every thread at once, each with its own memory.
  template <class F>
  static double fastest_ms(int threads, int times, std::size_t elements, const F& f) {
    const auto tasks = static_cast<std::size_t>(threads);
    std::vector<std::vector<real>> memory(tasks, std::vector<real>(elements, 1));
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < times; ++i) {
      const auto start = Clock::now();
      run_tasks(tasks, [&](std::size_t task) { f(memory[task].data()); });
      best = std::min(best, ms_since(start));
    }
    return best;
  }
};

enum class Job { J1, J2, J3, J4, J5, J6, J7, J8, J9, J10, J11, J12, charlm, model };
inline std::span<const char* const> enum_names(Job) {
  static constexpr const char* kNames[] = {"J1", "J2", "J3",  "J4",  "J5",  "J6",     "J7",
                                           "J8", "J9", "J10", "J11", "J12", "charlm", "model"};
  return kNames;
}

struct Bench {
  Job job = Job::J1;
  int threads = 1;
  MatmulPrecision precision = MatmulPrecision::highest;
  WeightFormat format = WeightFormat::full;
  double seconds = 3;
  int losses = 0, only = 0, shards = 0, times = 1;
  bool wants_floor = false, by_turns = false;
  std::filesystem::path weights;

  double dropout(double p) const { return losses > 0 ? 0 : p; }
  const char* name() const { return enum_names(job)[static_cast<std::size_t>(job)]; }

  std::vector<int> chosen(std::vector<int> sizes) const {
    if (only == 0) return sizes;
    if (std::find(sizes.begin(), sizes.end(), only) == sizes.end())
      throw examples::UsageError(fmt::format("--only: {} has {}", name(), fmt::join(sizes, ", ")));
    return {only};
  }

  // Rank 0's value on every rank, so that its clock and its input decide for all.
  static double of_first_rank(double number) {
    if (rank() > 0) number = 0;
    add_over_ranks({&number, 1});
    return number;
  }

  // Prints what it measures; then for each line of standard input, a number of milliseconds, runs steps for that long
  // and prints their mean time; an empty line ends it.
  template <class F>
  static void take_turns(const F& step, const nlohmann::json& what) {
    std::cout << what.dump() << std::endl;
    set_rank_timeout(1e6);  // other processes take their turns first
    for (std::string line;;) {
      if (rank() == 0 && !std::getline(std::cin, line)) line.clear();
      const double turn = of_first_rank(line.empty() ? -1 : std::stod(line));
      if (turn < 0) return;
      step();  // warm up: caches are cold
      const auto start = Clock::now();
      int steps = 0;
      do step(), ++steps;
      while (of_first_rank(ms_since(start) < turn ? 1 : 0) > 0);
      std::cout << ms_since(start) / steps << std::endl;
    }
  }

  // Runs step() until the time is up and prints the distribution of its times, how close they are to the floor, and how
  // many tokens a second these are, if a step has any.
  template <class F>
  void run(const F& step, nlohmann::json extra, const Floor& floor = {}, int tokens = 0) const {
    step();
    if (by_turns) return take_turns(step, extra);
    const double first = ms_since(started);
    const bool is_brief = seconds == 0;  // only a smoke test
    for (int i = 0; i < 4 && !is_brief; ++i) step();
    const bool has_floor = wants_floor && floor.multiplications > 0;
    std::vector<double> step_ms, products, shares;  // products and shares are those of the floor
    const auto begin = Clock::now();
    const auto is_over = [&] { return ms_since(begin) >= 1e3 * seconds || step_ms.size() >= 5000; };
    while (step_ms.size() < (is_brief ? 1 : 5) || of_first_rank(is_over() ? 1 : 0) == 0) {
      const auto start = Clock::now();
      step();
      step_ms.push_back(ms_since(start));
      if (!has_floor) continue;
      products.push_back(floor.products_ms(threads));
      shares.push_back(products.back() / step_ms.back());
    }
    std::sort(step_ms.begin(), step_ms.end());
    const std::size_t n = step_ms.size();
    nlohmann::json line = {{"job", name()},
                           {"impl", "seppo"},
                           {"threads", threads},
                           {"median_ms", step_ms[n / 2]},
                           {"min_ms", step_ms[0]},
                           {"p90_ms", step_ms[n * 9 / 10]},
                           {"steps", n},
                           {"first_step_ms", first},
                           {"peak_rss_mb", examples::peak_rss_mb()}};
    line.update(extra);
    if (tokens > 0) line["tokens_per_second"] = 1e3 * tokens / step_ms[n / 2];
    if (has_floor) {
      std::sort(products.begin(), products.end());
      std::sort(shares.begin(), shares.end());  // measured at the same moment, as machine speeds vary
      const double adam = floor.adam_ms(threads);
      line["floor_ms"] = products[n / 2] + adam;
      line["floor_share"] = shares[n / 2] + adam / step_ms[n / 2];
    }
    std::cout << line.dump() << std::endl;
    started = Clock::now();
  }
};

inline std::vector<int> random_tokens(std::size_t n, int vocabulary, std::uint64_t seed) {
  RandomStream random(seed, Purpose::data);
  std::vector<int> tokens;
  for (std::size_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<int>(random.below(static_cast<std::uint32_t>(vocabulary))));
  return tokens;
}

inline Ragged random_batch(int sequences, int length, int vocabulary, std::uint64_t seed) {
  Ragged batch;
  for (int s = 0; s < sequences; ++s)
    batch.add(random_tokens(static_cast<std::size_t>(length), vocabulary, 1000 * seed + static_cast<std::uint64_t>(s)));
  return batch;
}

// classification_loss() without counting correct answers, which the PyTorch side does not count either.
inline ShardLoss sum_of(const Tensor& logits, std::span<const int> targets, double smoothing = 0) {
  return {.loss = cross_entropy(logits, targets, {.label_smoothing = smoothing, .reduction = Reduction::sum}),
          .count = static_cast<double>(targets.size())};
}

// A training step of any model, given its loss on part of a batch; `tokens` are the tokens of the batch.
template <class F>
void bench_training(const Bench& bench, Parameters& parameters, const std::vector<Ragged>& tokens, TrainerConfig config,
                    double multiplications, const F& loss) {
  std::vector<int> rows(tokens[0].size());
  std::iota(rows.begin(), rows.end(), 0);
  config.seed = 1;
  config.shards = bench.shards;
  Trainer trainer(parameters, config);
  const auto train = [&] { return trainer.step(rows, loss).loss; };
  if (bench.losses == 0)
    return bench.run(train, {{"params", parameters.count()}}, {multiplications, parameters.count()});
  nlohmann::json line = {{"job", bench.name()}, {"tokens", nlohmann::json::array()}};
  for (const Ragged& batch : tokens) line["tokens"].push_back(batch.tokens);
  if (!bench.weights.empty()) save_checkpoint(bench.weights, parameters, {});
  for (int i = 0; i < bench.losses; ++i) line["losses"].push_back(train());
  std::cout << line.dump() << std::endl;
}

}  // namespace jobs
