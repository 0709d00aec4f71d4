// How well would a training step scale to many cores? Linked with bench_jobs, it records each step on one thread as
// a tree of tasks with their times, and replays the fastest step on 1 to 64 virtual cores by the scheduling rules of
// autograd/core/parallel.cpp:
//
//   critical_path --job J4 --seconds 20
//
// prints the time, the speed-up, and its share of the ideal, which is the time of a step not cut into tasks, divided
// by the number of cores. A core that takes a task, or an owner that opens or closes a batch of them, pays kHandOver.
// Cores are identical and memory is not modelled, so real machines are slower where memory is the bottleneck.
#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/train/trainer.h>

#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

// The linker redirects calls of these functions to __wrap_..., and calls of __real_... to the functions themselves.
#define SEPPO_WRAP(result, name, symbol, ...)               \
  result real_##name(__VA_ARGS__) asm("__real_" symbol);    \
  result wrapped_##name(__VA_ARGS__) asm("__wrap_" symbol); \
  result wrapped_##name(__VA_ARGS__)

namespace {

using namespace seppo;
using Size = std::size_t;
using Rows = std::span<const int>;

// ---- the recorded step

struct Tasks;
// Seconds of work followed by a batch of tasks; the last step of a task has no batch.
struct Step {
  double seconds = 0;
  std::unique_ptr<Tasks> tasks;
};
struct Task {
  std::vector<Step> steps{1};
};
struct Tasks {
  std::vector<Task> list;
};

// CPU time of this thread: in wall time, the longest task on a busy machine would be the one that was interrupted.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The cost of reading that clock, a system call; uncorrected, a batch of many short tasks would seem too long.
double seconds_of_a_look() {
  double least = 1, before = now();
  for (int i = 0; i < 1000; ++i) {
    const double time = now();
    least = std::min(least, time - std::exchange(before, time));
  }
  return least;
}

struct Recorder {
  Task* current = nullptr;  // null: not recording
  double last = 0;
  const double look = seconds_of_a_look();

  void tick() {
    const double time = now();
    current->steps.back().seconds += std::max(0.0, time - last - look);
    last = time;
  }
} recorder;

// Runs n tasks as children of the current one.
template <class Run>
void record_tasks(Size n, const Run& run) {
  Task* const parent = recorder.current;
  recorder.tick();
  parent->steps.back().tasks = std::make_unique<Tasks>();
  parent->steps.back().tasks->list.resize(n);
  std::deque<Task*> children;
  for (Task& task : parent->steps.back().tasks->list) children.push_back(&task);
  run([&](const auto& f) {
    recorder.tick();
    recorder.current = children.front();
    children.pop_front();
    f();
    recorder.tick();
    recorder.current = parent;
  });
  recorder.tick();
  parent->steps.emplace_back();
}

Size pieces(Size begin, Size end, Size grain) { return (end - begin + grain - 1) / grain; }

}  // namespace

SEPPO_WRAP(void, run_tasks, "_ZN5seppo3f329run_tasksEmNS0_11FunctionRefIFvmEEE", Size n, FunctionRef<void(Size)> f) {
  if (!recorder.current || n < 2) return real_run_tasks(n, f);
  record_tasks(n, [&](const auto& record) { real_run_tasks(n, [&](Size i) { record([&] { f(i); }); }); });
}

SEPPO_WRAP(void, parallel_for, "_ZN5seppo3f3212parallel_forEmmmNS0_11FunctionRefIFvmmEEE", Size begin, Size end,
           Size grain, FunctionRef<void(Size, Size)> f) {
  if (!recorder.current || begin >= end || pieces(begin, end, grain) < 2)
    return real_parallel_for(begin, end, grain, f);
  record_tasks(pieces(begin, end, grain), [&](const auto& record) {
    real_parallel_for(begin, end, grain, [&](Size first, Size last) { record([&] { f(first, last); }); });
  });
}

SEPPO_WRAP(void, parallel_range, "_ZN5seppo3f3214parallel_rangeEmmmNS0_11FunctionRefIFvmmEEE", Size begin, Size end,
           Size grain, FunctionRef<void(Size, Size)> f) {
  if (!recorder.current || end - begin <= grain) return real_parallel_range(begin, end, grain, f);
  wrapped_parallel_for(begin, end, grain, f);
}

namespace {

// ---- the replay

constexpr double kHandOver = 1e-6;  // seconds

struct OpenBatch {
  Tasks* tasks;
  int owner;
  Size next = 0, done = 0;
};
struct Frame {
  Task* task;
  OpenBatch* of;  // the batch the task belongs to; null for the whole step
  Size step = 0;
  bool has_worked = false;         // the step's own work is done
  OpenBatch* waits_for = nullptr;  // the step's batch
};

class Replay {
 public:
  Replay(Task& whole, int cores) : stacks_(static_cast<Size>(cores)) {
    stacks_[0].push_back({&whole, nullptr});
    advance(0, 0);
    for (; !events_.empty();) {
      const auto [time, core] = events_.top();
      events_.pop();
      time_ = std::max(time_, time);
      advance(core, time);
    }
  }

  double seconds() const { return time_; }

 private:
  using Event = std::pair<double, int>;

  std::vector<Frame>& stack(int core) { return stacks_[static_cast<Size>(core)]; }

  bool take(int core, OpenBatch& batch) {
    if (batch.next == batch.tasks->list.size()) return false;
    stack(core).push_back({&batch.tasks->list[batch.next++], &batch});
    return true;
  }

  // Oldest batch first, like Pool::join().
  bool help(int core) {
    return std::ranges::any_of(open_, [&](const auto& batch) { return take(core, *batch); });
  }

  // Runs the core until it is working, waiting or idle.
  void advance(int core, double time) {
    while (!stack(core).empty()) {
      Frame& frame = stack(core).back();
      Step& step = frame.task->steps[frame.step];
      if (!frame.has_worked) {
        frame.has_worked = true;
        events_.emplace(time + step.seconds, core);
        return;
      }
      if (step.tasks && !frame.waits_for) {
        frame.waits_for = open_.emplace_back(std::make_unique<OpenBatch>(OpenBatch{step.tasks.get(), core})).get();
        take(core, *frame.waits_for);
        for (int other = 0; other < static_cast<int>(stacks_.size()); ++other)
          if (other != core && stack(other).empty() && help(other)) advance_later(other, time);
        time += kHandOver;
      } else if (step.tasks) {
        if (frame.waits_for->done < step.tasks->list.size()) return;  // finish() will wake it
        std::erase_if(open_, [&](const auto& batch) { return batch.get() == frame.waits_for; });
        frame = {frame.task, frame.of, frame.step + 1};
      } else if (OpenBatch* const batch = frame.of) {
        stack(core).pop_back();
        ++batch->done;
        if (take(core, *batch)) continue;
        if (batch->owner != core) {
          if (batch->done == batch->tasks->list.size()) advance_later(batch->owner, time);
          if (!help(core)) return;
          time += kHandOver;
        }
      } else {
        return;  // the whole step is done
      }
    }
  }

  void advance_later(int core, double time) { events_.emplace(time + kHandOver, core); }

  std::vector<std::vector<Frame>> stacks_;  // what each core is working on, innermost task last
  std::deque<std::unique_ptr<OpenBatch>> open_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double time_ = 0;
};

struct Report {
  double best = std::numeric_limits<double>::infinity(), whole = best;
  Task step;

  ~Report() {
    if (step.steps.size() < 2) return;
    fmt::print("one core: {:.2f} ms; in tasks {:.2f} ms\n", whole * 1e3, Replay(step, 1).seconds() * 1e3);
    for (const int cores : {2, 4, 8, 16, 32, 64}) {
      const double seconds = Replay(step, cores).seconds();
      fmt::print("{:2} cores: {:8.2f} ms, {:5.2f} times as fast, {:3.0f} % of the ideal\n", cores, seconds * 1e3,
                 whole / seconds, 100 * whole / seconds / cores);
    }
  }
} report;

}  // namespace

// Every other step is recorded; the others measure the time without tasks.
SEPPO_WRAP(StepResult, step,
           "_ZN5seppo3f327Trainer4stepESt4spanIKiLm18446744073709551615EENS0_11FunctionRefIFNS0_9ShardLossES4_EEE",
           Trainer* trainer, Rows rows, FunctionRef<ShardLoss(Rows)> loss) {
  static bool records = false;
  Task step;
  const double start = now();
  if ((records = !records)) recorder.current = &step, recorder.last = start;
  const StepResult result = real_step(trainer, rows, loss);
  const double seconds = now() - start;
  if (!records) {
    report.whole = std::min(report.whole, seconds);
  } else {
    recorder.tick();
    recorder.current = nullptr;
    if (seconds < report.best) report.best = seconds, report.step = std::move(step);
  }
  return result;
}
