// The pool of worker threads.
#include "parallel.h"

#include "check.h"
#include "utility.h"

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

namespace seppo::inline SEPPO_ABI {
namespace {

thread_local bool is_inside_task = false;
thread_local int index_of_thread = 0;

class Pool {
 public:
  ~Pool() { stop(); }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void resize(int threads) {
    const std::lock_guard caller(callers_);
    if (threads == this->threads()) return;
    stop();
    stopping_ = false;
    for (int i = 1; i < threads; ++i)
      workers_.emplace_back([this, i, seen = batch_.load()] {
        index_of_thread = i;
        work(seen);
      });
  }

  void run(std::size_t n, FunctionRef<void(std::size_t)> f) {
    const std::lock_guard caller(callers_);
    task_ = &f;
    count_ = n;
    error_ = nullptr;
    next_.store(0);
    busy_.store(workers_.size());
    {
      const std::lock_guard lock(mutex_);
      batch_.fetch_add(1);
    }
    wake_.notify_all();
    take_tasks();
    for (int spin = 0; busy_.load(std::memory_order_acquire) != 0; ++spin) pause(spin);
    if (error_) std::rethrow_exception(error_);
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

  void work(std::size_t seen) {
    for (;;) {
      for (int spin = 0; spin < kSpins && batch_.load(std::memory_order_acquire) == seen; ++spin) pause(spin);
      if (batch_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return batch_.load() != seen; });
      }
      seen = batch_.load();
      if (stopping_) return;
      take_tasks();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  void take_tasks() {
    const ScopedValue inside(is_inside_task, true);
    for (std::size_t i; (i = next_.fetch_add(1)) < count_;) try {
        (*task_)(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      batch_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  std::mutex callers_;  // one batch of tasks at a time
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
  std::atomic<std::size_t> batch_{0}, next_{0}, busy_{0};
  std::atomic<bool> stopping_{false};
  const FunctionRef<void(std::size_t)>* task_ = nullptr;
  std::size_t count_ = 0;
  std::exception_ptr error_;
};

Pool& pool() {
  static Pool pool;
  return pool;
}

std::atomic<int> threads_wanted{1};

}  // namespace

void set_num_threads(int threads) {
  check<ArgumentError>(threads >= 1 && threads <= 256, "threads: ", threads, " is not in 1..256");
  check<StateError>(!is_inside_task, "threads: the number cannot change inside a task");
  pool().resize(threads);
  threads_wanted = threads;
}

int num_threads() { return threads_wanted; }

bool inside_task() { return is_inside_task; }

int usable_threads() { return is_inside_task ? 1 : num_threads(); }

int thread_index() { return index_of_thread; }

void run_tasks(std::size_t n, FunctionRef<void(std::size_t)> f) {
  if (n == 0) return;
  if (n == 1) return f(0);
  if (usable_threads() > 1) return pool().run(n, f);
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

#if defined(__x86_64__)
FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(static_cast<unsigned>(saved_) | 0x8040u); }
FlushDenormals::~FlushDenormals() { _mm_setcsr(static_cast<unsigned>(saved_)); }
#elif defined(__aarch64__)
FlushDenormals::FlushDenormals() {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" ::"r"(saved_ | (1ull << 24)));
}
FlushDenormals::~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }
#else
FlushDenormals::FlushDenormals() : saved_(0) {}
FlushDenormals::~FlushDenormals() = default;
#endif

}  // namespace seppo::inline SEPPO_ABI
