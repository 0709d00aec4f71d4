// Reads what is free from /proc, and extrapolates what is needed linearly from passes over a few examples.
#include "app/memory.h"

#include "app/proc.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/tape.h>

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <vector>

namespace examples {

namespace {

// The peak size of a tape during a pass: backward both allocates and frees.
struct Peak : seppo::Observer {
  std::size_t bytes = 0;
  void backward(const seppo::Tensor&) override { bytes = std::max(bytes, seppo::tape().used()); }
};

double bytes_to_train(const Loss& loss, std::span<const int> rows) {
  seppo::Tape scratch;
  const seppo::UseTape use(scratch);
  Peak peak;
  const seppo::Observe scope(peak);
  scratch.backward(loss(rows).loss);
  return static_cast<double>(peak.bytes);
}

// A stack of layers that is evaluated uses the memory of one of them again for the next.
double bytes_to_evaluate(const Loss& loss, std::span<const int> rows) {
  seppo::Tape scratch;
  const seppo::UseTape use(scratch);
  const seppo::UseMode eval(seppo::Mode::eval);
  loss(rows);
  return static_cast<double>(scratch.most_used());
}

// The bytes for `count` examples, extrapolated from passes of at most so many of the batch.
double extrapolated(double (*bytes)(const Loss&, std::span<const int>), const Loss& loss, std::span<const int> batch,
                    std::size_t count, std::size_t most) {
  const std::size_t many = std::min({count, batch.size(), most});
  const double of_many = bytes(loss, batch.first(many));
  if (many == count || many == 1) return of_many * static_cast<double>(count) / static_cast<double>(many);
  const std::size_t few = (many + 1) / 2;
  const double each =
      (of_many - bytes(loss, batch.first(few))) / static_cast<double>(std::max<std::size_t>(1, many - few));
  return of_many + each * (static_cast<double>(count) - static_cast<double>(many));
}

// Of a shard and of an evaluation, each by one thread.
struct ThreadNeed {
  double shard, evaluation;
};

// The passes of a large model take time. It sees few examples, or one if that takes so much that what does not grow
// with their number is little beside it.
ThreadNeed predict_thread(const Loss& loss, std::span<const int> batch, std::size_t shard, std::size_t evaluated,
                          bool is_large) {
  constexpr double kMuch = 64 << 20;
  const double of_one = is_large ? bytes_to_train(loss, batch.first(1)) : 0;
  const bool is_one_enough = of_one > kMuch;
  std::size_t most = is_large ? 2 : 8;
  if (is_one_enough) most = 1;
  return {.shard = is_one_enough ? of_one * static_cast<double>(shard)
                                 : extrapolated(bytes_to_train, loss, batch, shard, most),
          .evaluation = extrapolated(bytes_to_evaluate, loss, batch, evaluated, most)};
}

// Of the flat blocks, all else is never touched.
std::size_t trained_values(const seppo::Parameters& parameters) {
  std::size_t values = 0;
  for (const seppo::Parameters::Run& run : parameters.trained_runs()) values += run.end - run.begin;
  return values;
}

}  // namespace

double available_memory(const std::filesystem::path& root) {
  const double free = number_in(root / "proc/meminfo", "MemAvailable:") * 1024;
  double available = free >= 0 ? free : std::numeric_limits<double>::infinity();  // NaN where there is no /proc
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const double used = number_in(root / "proc/self/statm") * static_cast<double>(::sysconf(_SC_PAGESIZE));
    if (used >= 0) available = std::min(available, static_cast<double>(limit.rlim_cur) - used);
  }
  return std::max(0.0, available);
}

MemoryNeed predict_memory(seppo::Parameters& parameters, std::span<const int> batch, std::size_t evaluated,
                          const Loss& loss, const seppo::TrainerConfig& config) {
  const double block = static_cast<double>(trained_values(parameters) * sizeof(seppo::real));
  const std::vector<std::size_t> sizes = seppo::DataParallel(parameters, static_cast<std::size_t>(config.shards),
                                                             static_cast<std::size_t>(config.accumulate))
                                             .shard_sizes(batch.size());
  const auto threads = static_cast<std::size_t>(seppo::num_threads());
  const std::size_t waiting = static_cast<std::size_t>(std::bit_width(sizes.size())) - 1;  // partial sums in the tree
  const std::size_t gradients = std::min(sizes.size(), threads + waiting);
  MemoryNeed need{.parameters = block * static_cast<double>(gradients + 2)};
  if (need.total() > available_memory()) return need;  // too much even without activations
  const bool is_large = parameters.values().size() > std::size_t{1} << 24;
  const ThreadNeed thread = predict_thread(loss, batch, std::ranges::max(sizes), evaluated, is_large);
  parameters.zero_gradients();
  need.shard = thread.shard;
  need.activations = thread.shard * static_cast<double>(std::min(sizes.size(), threads));
  need.evaluation = thread.evaluation * static_cast<double>(threads);
  return need;
}

void check_memory(const MemoryNeed& need, std::size_t batch_size) {
  const double left = available_memory();
  if (need.total() <= left) return;
  const bool is_batch = need.total() > 2 * need.parameters;
  throw std::runtime_error(fmt::format(
      "{}: {} need about {:.2g} GB of memory, {:.2g} GB are available; lower {}",
      is_batch ? "--batch-size" : "--d-model",
      is_batch ? fmt::format("{} examples", batch_size) : "gradients and moments", need.total() / 1e9, left / 1e9,
      is_batch ? "it, the length of the examples, or --d-model" : "it, --d-ff or the number of layers"));
}

double resident_memory() { return number_in("/proc/self/status", "VmRSS:") * 1024; }

// Not ru_maxrss of getrusage(): on Linux, it starts at the memory of the process that launched this one.
double peak_rss_mb() {
  const double kib = number_in("/proc/self/status", "VmHWM:");
  return kib > 0 ? kib / 1024 : 0;
}

std::size_t most_values() {
  constexpr double kBlocks = 5;  // values, gradients, two moments, and the gradients of another shard
  return static_cast<std::size_t>(std::min(available_memory() / (kBlocks * sizeof(float)), 1e15));
}

void refuse_model(std::size_t most) {
  throw std::runtime_error(fmt::format(
      "--d-model: there is memory to train {:.2g} million parameters, and the model has more; lower it, --d-ff or the "
      "number of layers",
      static_cast<double>(most) / 1e6));
}

}  // namespace examples
