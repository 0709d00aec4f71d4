// Tasks on threads: each runs once, exceptions arrive once, and denormal numbers are flushed within a scope.
#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/flush_denormals.h>
#include <seppo/autograd/core/parallel.h>

#include "support/memcheck.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace seppo;

BOOST_AUTO_TEST_CASE(every_task_runs_once) {
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<std::atomic<int>> runs(37);
      std::atomic<int> strangers{0};  // Boost's checks are not thread-safe
      run_tasks(runs.size(), [&](std::size_t i) {
        strangers += thread_index() < 0 || thread_index() >= num_threads();
        ++runs[i];
      });
      BOOST_REQUIRE_EQUAL(strangers.load(), 0);
      for (const auto& r : runs) BOOST_REQUIRE_EQUAL(r.load(), 1);
    }
    std::atomic<std::size_t> covered{0};
    parallel_for(5, 1000, 64, [&](std::size_t first, std::size_t last) { covered += last - first; });
    BOOST_CHECK_EQUAL(covered.load(), 995);
  }
  set_num_threads(1);
  set_num_threads(256);
  set_num_threads(1);
  for (const int threads : {-1, 0, 257, 1000}) BOOST_CHECK_THROW(set_num_threads(threads), ArgumentError);
  BOOST_CHECK_EQUAL(num_threads(), 1);
  BOOST_CHECK_THROW(run_tasks(2, [](std::size_t) { set_num_threads(2); }), StateError);
}

// Two tasks that wait for each other both end, so they run concurrently.
BOOST_AUTO_TEST_CASE(tasks_run_at_the_same_time) {
  const int before = num_threads();
  set_num_threads(2);
  std::atomic<int> begun = 0;
  std::atomic<bool> met = true;
  run_tasks(2, [&](std::size_t) {
    ++begun;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begun < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (begun < 2) met = false;
  });
  BOOST_CHECK(met);
  set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(an_exception_arrives_and_the_pool_lives_on) {
  set_num_threads(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    BOOST_CHECK_THROW(run_tasks(10,
                                [](std::size_t i) {
                                  if (i == 7) throw std::runtime_error("task");
                                }),
                      std::runtime_error);
    std::atomic<int> runs{0};
    run_tasks(10, [&](std::size_t) { ++runs; });
    BOOST_CHECK_EQUAL(runs.load(), 10);
  }
  std::atomic<int> nested{0};
  run_tasks(4, [&](std::size_t) { run_tasks(5, [&](std::size_t) { ++nested; }); });
  BOOST_CHECK_EQUAL(nested.load(), 20);
  set_num_threads(1);
}

// The first of several exceptions arrives, but not before all running tasks have ended.
BOOST_AUTO_TEST_CASE(the_first_exception_arrives_after_all_tasks) {
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::atomic<int> under_way{0}, ended{0};
      std::atomic<bool> has_thrown{false};
      std::string text;
      try {
        run_tasks(20, [&](std::size_t i) {
          ++under_way;
          if (i == 0) {
            has_thrown = true;
            throw std::runtime_error("first");
          }
          while (!has_thrown) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds(i < 4 ? 50 : 0));
          ++ended;
          if (i % 2 == 1) throw std::runtime_error("later");
        });
      } catch (const std::runtime_error& e) {
        text = e.what();
      }
      BOOST_CHECK_EQUAL(text, "first");
      BOOST_CHECK_EQUAL(ended.load(), under_way.load() - 1);
    }
  }
  set_num_threads(1);
}

// Each index is visited once, even if a task divides a range again, and denormals are flushed only if the caller
// flushes them.
BOOST_AUTO_TEST_CASE(tasks_within_tasks_run_once_in_the_mode_of_their_caller) {
  for (const int threads : {1, 2, 4, 7}) {
    set_num_threads(threads);
    for (int repeat = 0; repeat < 30; ++repeat) {
      std::vector<std::atomic<int>> runs(3 * 1000);
      std::atomic<int> wrong{0};
      run_tasks(3, [&](std::size_t task) {
        std::optional<FlushDenormals> flush;
        if (task == 1) flush.emplace();
        parallel_range(task * 1000, task * 1000 + 1000, 16, [&](std::size_t first, std::size_t last) {
          volatile float tiny = std::numeric_limits<float>::min();
          wrong += (tiny / 4 == 0) != (task == 1 && !test::is_in_memcheck()) || !inside_task();
          for (std::size_t i = first; i < last; ++i) ++runs[i];
          if (repeat % 3 == 0) std::this_thread::yield();
        });
      });
      BOOST_CHECK_EQUAL(wrong.load(), 0);
      BOOST_CHECK(std::ranges::all_of(runs, [](const auto& n) { return n.load() == 1; }));
    }
    int calls = 0;
    if (threads == 1)
      parallel_range(3, 500, 10, [&](std::size_t first, std::size_t last) {
        BOOST_CHECK(first == 3 && last == 500);
        ++calls;
      });
    BOOST_CHECK_EQUAL(calls, threads == 1 ? 1 : 0);
    // Nor is a range divided while every thread has a task.
    std::atomic<int> begun{0}, whole{0}, ended{0};
    run_tasks(static_cast<std::size_t>(threads), [&](std::size_t) {
      for (++begun; begun < threads;) std::this_thread::yield();
      parallel_range(3, 500, 10, [&](std::size_t first, std::size_t last) { whole += first == 3 && last == 500; });
      for (++ended; ended < threads;) std::this_thread::yield();
    });
    BOOST_CHECK_EQUAL(whole.load(), threads);
  }
  set_num_threads(1);
}

BOOST_AUTO_TEST_CASE(ranges_are_cut_into_pieces_of_the_grain) {
  using Piece = std::pair<std::size_t, std::size_t>;
  const auto pieces = [](std::size_t begin, std::size_t end, std::size_t grain) {
    std::mutex mutex;
    std::vector<Piece> seen;
    parallel_for(begin, end, grain, [&](std::size_t first, std::size_t last) {
      const std::lock_guard lock(mutex);
      seen.emplace_back(first, last);
    });
    std::ranges::sort(seen);
    return seen;
  };
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    BOOST_CHECK((pieces(5, 15, 4) == std::vector<Piece>{{5, 9}, {9, 13}, {13, 15}}));
    BOOST_CHECK((pieces(5, 13, 4) == std::vector<Piece>{{5, 9}, {9, 13}}));
    BOOST_CHECK((pieces(2, 4, 100) == std::vector<Piece>{{2, 4}}));
    BOOST_CHECK(pieces(3, 3, 4).empty());
  }
  set_num_threads(1);
}

BOOST_AUTO_TEST_CASE(denormals_are_flushed_in_scope_only) {
  if (test::is_in_memcheck()) return void(std::puts("skipped: flushing denormals, which valgrind does not emulate"));
  volatile float tiny = std::numeric_limits<float>::min();
  {
    const FlushDenormals flush;
    BOOST_CHECK_EQUAL(tiny / 4, 0);
  }
  BOOST_CHECK_GT(tiny / 4, 0);
}
