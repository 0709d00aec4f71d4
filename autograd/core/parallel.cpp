// The pool of worker threads.
#include "parallel.h"

#include "check.h"
#include "flush_denormals.h"
#include "matmul_precision.h"
#include "scoped_value.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

thread_local bool is_inside_task = false;
thread_local int index_of_thread = 0;

// One call of run_tasks().
struct Batch {
  FunctionRef<void(std::size_t)> f;
  std::size_t count;
  unsigned long long mode = float_mode();
  MatmulPrecision precision = matmul_precision();
  std::atomic<std::size_t> next{0};     // the next task
  std::atomic<std::size_t> helpers{0};  // workers that may still touch this batch
  std::exception_ptr error = nullptr;
};

class Pool {
 public:
  ~Pool() { stop(); }

  void resize(int threads) {
    const std::lock_guard caller(callers_);
    if (threads == static_cast<int>(workers_.size()) + 1) return;
    stop();
    stopping_ = false;
    for (int i = 1; i < threads; ++i)
      workers_.emplace_back([this, i] {
        index_of_thread = i;
        work();
      });
  }

  bool has_idle() const { return idle_.load(std::memory_order_relaxed) > 0; }

  void run(std::size_t n, FunctionRef<void(std::size_t)> f) {
    Batch batch{f, n};
    {
      const std::lock_guard lock(mutex_);
      open_.push_back(&batch);
      offers_.fetch_add(1);
    }
    wake_.notify_all();
    take_tasks(batch);
    {
      const std::lock_guard lock(mutex_);
      std::erase(open_, &batch);
    }
    for (int spin = 0; batch.helpers.load(std::memory_order_acquire) != 0; ++spin) pause(spin);
    if (batch.error) std::rethrow_exception(batch.error);
  }

 private:
  // Training hands out work every fraction of a millisecond. Spinning that long before sleeping avoids most
  // wake-ups (13 us each); an idle pool sleeps.
  static constexpr int kSpins = 2000;

  static void pause(int spin) {
    if (spin > kSpins) std::this_thread::yield();
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  void work() {
    for (;;) {
      const std::size_t seen = offers_.load();
      if (stopping_) return;
      while (Batch* const batch = join()) {
        set_float_mode(batch->mode);
        const UseMatmulPrecision callers(batch->precision);
        take_tasks(*batch);
        batch->helpers.fetch_sub(1, std::memory_order_release);
      }
      idle_.fetch_add(1);
      wait_for_offer(seen);
      idle_.fetch_sub(1);
    }
  }

  // Until more batches have been opened than were seen.
  void wait_for_offer(std::size_t seen) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (offers_.load(std::memory_order_acquire) != seen) return;
      pause(spin);
    }
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return offers_.load() != seen; });
  }

  // Joins the oldest batch with a task left, so that shards take precedence over the products within them.
  Batch* join() {
    const std::lock_guard lock(mutex_);
    for (Batch* const batch : open_)
      if (batch->next.load() < batch->count) {
        batch->helpers.fetch_add(1);
        return batch;
      }
    return nullptr;
  }

  void take_tasks(Batch& batch) {
    const ScopedValue inside(is_inside_task, true);
    std::size_t task = batch.next.fetch_add(1);
    while (task < batch.count) {
      run_one(batch, task);
      task = batch.next.fetch_add(1);
    }
  }

  void run_one(Batch& batch, std::size_t task) {
    try {
      batch.f(task);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!batch.error) batch.error = std::current_exception();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      offers_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  std::mutex callers_;  // of resize()
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
  std::vector<Batch*> open_;            // oldest first
  std::atomic<std::size_t> offers_{0};  // batches opened so far
  std::atomic<int> idle_{0};            // workers without a task
  std::atomic<bool> stopping_{false};
};

Pool& pool() {
  static Pool pool;
  return pool;
}

std::atomic<int> threads_wanted{1};

// Whether another thread could take a task now.
bool has_helpers() { return num_threads() > 1 && (!is_inside_task || pool().has_idle()); }

}  // namespace

void set_num_threads(int threads) {
  check<ArgumentError>(threads >= 1 && threads <= 256, "threads: ", threads, " is not in 1..256");
  check<StateError>(!is_inside_task, "threads: the number cannot change inside a task");
  pool().resize(threads);
  threads_wanted = threads;
}

int num_threads() { return threads_wanted; }

bool inside_task() { return is_inside_task; }

int thread_index() { return index_of_thread; }

void run_tasks(std::size_t n, FunctionRef<void(std::size_t)> f) {
  if (n == 0) return;
  if (n == 1) return f(0);
  if (has_helpers()) return pool().run(n, f);
  const ScopedValue inside(is_inside_task, true);
  for (std::size_t i = 0; i < n; ++i) f(i);
}

void parallel_for(std::size_t begin, std::size_t end, std::size_t grain,
                  FunctionRef<void(std::size_t, std::size_t)> f) {
  if (begin >= end) return;
  grain = std::max<std::size_t>(grain, 1);
  run_tasks((end - begin + grain - 1) / grain, [&](std::size_t piece) {
    const std::size_t first = begin + piece * grain;
    f(first, std::min(end, first + grain));
  });
}

void parallel_range(std::size_t begin, std::size_t end, std::size_t grain,
                    FunctionRef<void(std::size_t, std::size_t)> f) {
  if (end - begin <= grain || !has_helpers()) return f(begin, end);
  parallel_for(begin, end, grain, f);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
