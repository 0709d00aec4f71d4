// Threads: one knob, one pool of persistent workers that sleep when idle.
//
// run_tasks(n, f) calls f(0) ... f(n-1), each once, on the caller's thread and on idle ones; calls may nest. Tasks must
// not depend on the thread that runs them, on its thread-local state such as its tape, or on their order; then results
// do not depend on the number of threads. The first exception is rethrown after all tasks under way have ended. With
// n = 1, f simply runs in the caller, and does not count as a task.
#pragma once

#include "function_ref.h"
#include "real.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

// 1 until set. Throws ArgumentError outside 1..256, StateError inside a task.
void set_num_threads(int threads);
int num_threads();
// True inside a task, also when one thread runs it.
bool inside_task();

// The index of the thread that runs the current task: 0 .. num_threads()-1; 0 outside tasks.
int thread_index();

void run_tasks(std::size_t n, FunctionRef<void(std::size_t task)> f);

// Cuts [begin, end) into pieces of `grain` (the last may be shorter) and runs f(first, last) on each.
void parallel_for(std::size_t begin, std::size_t end, std::size_t grain,
                  FunctionRef<void(std::size_t first, std::size_t last)> f);

// The same for an f whose bytes do not depend on how the range is cut: if no thread can help, it calls f(begin, end).
void parallel_range(std::size_t begin, std::size_t end, std::size_t grain,
                    FunctionRef<void(std::size_t first, std::size_t last)> f);

}  // namespace SEPPO_ABI
}  // namespace seppo
