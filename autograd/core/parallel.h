// Threads: one knob, one pool of persistent workers that sleep when idle.
//
// run_tasks(n, f) calls f(0) ... f(n-1), each once, on up to num_threads() threads including the
// caller's. Tasks must not depend on which thread runs them or in which order; then results do not
// depend on the number of threads. The first exception is rethrown after all tasks have ended.
// Calls from inside a task run serially. A single task (n = 1) does not count as one: it may use the threads.
#pragma once

#include "real.h"
#include "utility.h"

#include <cstddef>

namespace seppo::inline SEPPO_ABI {

// 1 until set. Throws ArgumentError outside 1..256.
void set_num_threads(int threads);
int num_threads();
// True inside a task, where run_tasks() runs serially. Independent of the number of threads.
bool inside_task();
// How many threads run_tasks() would use here: 1 inside a task, else num_threads().
int usable_threads();

// Which of the threads is running the current task: 0 .. num_threads()-1; 0 outside tasks.
int thread_index();

void run_tasks(std::size_t n, FunctionRef<void(std::size_t task)> f);

// Cuts [begin, end) into pieces of `grain` (the last may be shorter) and runs f(first, last) on each.
void parallel_for(std::size_t begin, std::size_t end, std::size_t grain,
                  FunctionRef<void(std::size_t first, std::size_t last)> f);

// Sets flush-to-zero and denormals-are-zero on the calling thread for a scope. Arithmetic on denormals takes
// about twenty times as long; training wraps its shards in this.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned long long saved_;
};

}  // namespace seppo::inline SEPPO_ABI
