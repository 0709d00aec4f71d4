// Reads limits from /proc and the control groups, and extrapolates linearly from passes over a few examples.
#include "app/memory.h"

#include "app/text_file.h"
#include "app/words.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/tape.h>

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <vector>

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The number after `key` in a file such as /proc/meminfo, "MemAvailable:    23 kB", or at the beginning of the file if
// `key` is empty; NaN if there is none.
double number_in(const fs::path& file, std::string_view key = "") try {
  const std::string text = read_text(file);
  std::string_view rest = text;
  if (!key.empty()) {
    const std::size_t at = text.find(key);
    if (at == std::string::npos) return std::numeric_limits<double>::quiet_NaN();
    rest.remove_prefix(at + key.size());
  }
  const std::vector<std::string_view> words = split_blanks(rest.substr(0, 100));
  double number = std::numeric_limits<double>::quiet_NaN();
  if (!words.empty()) std::from_chars(words[0].data(), words[0].data() + words[0].size(), number);
  return number;
} catch (const seppo::Error&) {
  return std::numeric_limits<double>::quiet_NaN();
}

double least_of(double a, double b) { return b < a ? b : a; }  // b may be NaN

// The memory left by a control group and its ancestors; versions 1 and 2 name its files differently. The inactive page
// cache counts as free, because the kernel can reclaim it.
double left_in_group(const fs::path& mounted, fs::path group, const char* limit, const char* usage, const char* cache) {
  double left = kUnlimited;
  for (;; group = group.parent_path()) {
    const fs::path folder = mounted / group.relative_path();
    const double files = number_in(folder / "memory.stat", cache);
    left = least_of(left, number_in(folder / limit) - number_in(folder / usage) + (files > 0 ? files : 0));
    if (!group.has_relative_path()) return left;
  }
}

double left_in_groups(const fs::path& root) {
  double left = kUnlimited;
  std::string text;
  try {
    text = read_text(root / "proc/self/cgroup");
  } catch (const seppo::Error&) {
    return left;
  }
  // Lines "4:memory:/path" and "0::/path".
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controller = line.substr(first + 1, second - first - 1);
    const fs::path group(line.substr(second + 1)), mounted = root / "sys/fs/cgroup";
    if (controller.empty())
      left = least_of(left, left_in_group(mounted, group, "memory.max", "memory.current", "\ninactive_file "));
    if (controller == "memory")
      left = least_of(left, left_in_group(mounted / "memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                          "\ntotal_inactive_file "));
  }
  return left;
}

double page_size() { return static_cast<double>(::sysconf(_SC_PAGESIZE)); }

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

double bytes_to_evaluate(const Loss& loss, std::span<const int> rows) {
  seppo::Tape scratch;
  const seppo::UseTape use(scratch);
  const seppo::UseMode eval(seppo::Mode::eval);
  loss(rows);
  return static_cast<double>(scratch.used());
}

// The bytes for `count` examples, extrapolated from a few of the batch.
double extrapolated(double (*bytes)(const Loss&, std::span<const int>), const Loss& loss, std::span<const int> batch,
                    std::size_t count) {
  const std::size_t many = std::min({count, batch.size(), std::size_t{8}}), few = (many + 1) / 2;
  const double of_many = bytes(loss, batch.first(many)), of_few = bytes(loss, batch.first(few));
  const double each = (of_many - of_few) / static_cast<double>(std::max<std::size_t>(1, many - few));
  return of_many + each * (static_cast<double>(count) - static_cast<double>(many));
}

}  // namespace

double available_memory(const fs::path& root) {
  double available = least_of(kUnlimited, number_in(root / "proc/meminfo", "MemAvailable:") * 1024);
  available = least_of(available, left_in_groups(root));
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    available =
        least_of(available, static_cast<double>(limit.rlim_cur) - number_in(root / "proc/self/statm") * page_size());
  return std::max(0.0, available);
}

MemoryNeed predict_memory(seppo::Parameters& parameters, std::span<const int> batch, std::size_t evaluated,
                          const Loss& loss, const seppo::TrainerConfig& config) {
  const double block = static_cast<double>(parameters.gradients().size_bytes());
  const std::vector<std::size_t> sizes = seppo::DataParallel(parameters, static_cast<std::size_t>(config.shards),
                                                             static_cast<std::size_t>(config.accumulate))
                                             .shard_sizes(batch.size());
  const auto threads = static_cast<std::size_t>(seppo::num_threads());
  const std::size_t waiting = static_cast<std::size_t>(std::bit_width(sizes.size())) - 1;  // partial sums in the tree
  const std::size_t gradients = std::min(sizes.size(), threads + waiting);
  MemoryNeed need{.parameters = block * static_cast<double>(gradients + 2)};
  if (need.total() > available_memory()) return need;  // too much even without activations
  need.activations = extrapolated(bytes_to_train, loss, batch, std::ranges::max(sizes)) *
                     static_cast<double>(std::min(sizes.size(), threads));
  parameters.zero_gradients();
  need.evaluation = extrapolated(bytes_to_evaluate, loss, batch, evaluated) * static_cast<double>(threads);
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
