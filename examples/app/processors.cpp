// Asks the scheduler and the control groups.
#include "app/processors.h"

#include "app/control_groups.h"

#include <sched.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

namespace examples {
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

// The processors' time that the group may use; NaN, or negative, if there is no limit.
double share_of(const ControlGroup& group) {
  if (group.is_first_version)
    return number_in(group.folder / "cpu.cfs_quota_us") / number_in(group.folder / "cpu.cfs_period_us");
  return number_in(group.folder / "cpu.max") / number_in(group.folder / "cpu.max", " ");
}

}  // namespace

int available_processors(const std::filesystem::path& root) {
  int processors = processors_to_run_on();
  for_each_control_group(root, "cpu", [&](const ControlGroup& group) {
    const double share = share_of(group);
    if (share > 0 && share < processors) processors = static_cast<int>(std::ceil(share));
  });
  return processors;
}

}  // namespace examples
