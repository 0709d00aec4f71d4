// Asks the scheduler and the control groups (Linux's cgroups, versions 1 and 2), whose limits containers have.
#include "app/processors.h"

#include "app/proc.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/text_file.h>

#include <sched.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace examples {

namespace fs = std::filesystem;

namespace {

int processors_to_run_on() {
  constexpr int kMost = 1 << 14;
  for (int size = CPU_SETSIZE; size <= kMost; size *= 2) {  // the kernel refuses a set with less than it can have
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<std::size_t>(size)),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    if (set && ::sched_getaffinity(0, bytes, set.get()) == 0) return std::max(1, CPU_COUNT_S(bytes, set.get()));
  }
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Takes what is before the first `end` off the text, and returns it.
std::string_view taken(std::string_view& text, char end) {
  const std::string_view first = text.substr(0, text.find(end));
  text.remove_prefix(std::min(first.size() + 1, text.size()));
  return first;
}

// Is it in a list such as "cpu,cpuacct"?
bool is_listed(std::string_view controller, std::string_view list) {
  while (!list.empty())
    if (taken(list, ',') == controller) return true;
  return false;
}

// The processors' time that a group may use; NaN, or negative, if there is no limit.
double share_of(const fs::path& group, bool is_first_version) {
  if (is_first_version) return number_in(group / "cpu.cfs_quota_us") / number_in(group / "cpu.cfs_period_us");
  return number_in(group / "cpu.max") / number_in(group / "cpu.max", " ");
}

// The least share of the group that a line of /proc/self/cgroup names, "4:cpu,cpuacct:/path" or "0::/path", and of
// those around it; `most` if none has less.
double share_by(std::string_view line, const fs::path& root, double most) {
  taken(line, ':');
  const std::string_view controllers = taken(line, ':');
  const bool is_first_version = !controllers.empty();
  if (line.empty() || (is_first_version && !is_listed("cpu", controllers))) return most;
  const fs::path mounted = root / "sys/fs/cgroup" / (is_first_version ? "cpu" : "");
  double least = most;
  for (fs::path group(line);; group = group.parent_path()) {
    const double share = share_of(mounted / group.relative_path(), is_first_version);
    if (share > 0) least = std::min(least, share);
    if (!group.has_relative_path()) return least;
  }
}

}  // namespace

int available_processors(const fs::path& root) {
  const int processors = processors_to_run_on();
  std::string groups;
  try {
    groups = seppo::read_text(root / "proc/self/cgroup");
  } catch (const seppo::Error&) {
    return processors;
  }
  double share = processors;
  for (std::string_view rest = groups; !rest.empty();) share = share_by(taken(rest, '\n'), root, share);
  return static_cast<int>(std::ceil(share));
}

}  // namespace examples
