// Lets each allocation fail in turn, as SQLite's tests do. Replaces operator new: include in one file per executable.
#pragma once

#include <boost/test/unit_test.hpp>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <new>

namespace test {

// Counts down while armed; the allocation that reaches zero fails, and so do all later ones if failures_last is set.
inline std::atomic<long> countdown{-1};
inline std::atomic<bool> failures_last{false}, has_failed{false};
inline std::atomic<long> live{0};
inline std::atomic<std::size_t> largest{0};  // bytes of the largest single allocation

// No allocation fails in this scope.
class Unfailing {
 public:
  ~Unfailing() { countdown = before_; }

 private:
  const long before_ = countdown.exchange(-1);
};

inline bool fails() {
  if (countdown < 0 || (countdown > 0 && countdown-- > 0)) return false;
  if (!failures_last) countdown = -1;
  return has_failed = true;
}

inline void* allocate(std::size_t size, std::size_t alignment) {
  if (fails()) throw std::bad_alloc();
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const p = std::aligned_alloc(alignment, rounded ? rounded : alignment);
  if (!p) throw std::bad_alloc();
  ++live;
  for (std::size_t most = largest; size > most && !largest.compare_exchange_weak(most, size);)
    ;
  return p;
}

inline void release(void* p) noexcept {
  if (p) --live;
  std::free(p);
}

}  // namespace test

// When these are inlined, GCC takes malloc and free for a mismatched pair.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size) { return test::allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return test::allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t a) { return test::allocate(size, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t size, std::align_val_t a) { return test::allocate(size, static_cast<std::size_t>(a)); }
// Callers of the nothrow form, such as std::stable_sort, continue without the memory, so it never fails on purpose.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  const test::Unfailing guard;
  return test::allocate(size, alignof(std::max_align_t));
}
void operator delete(void* p) noexcept { test::release(p); }
void operator delete[](void* p) noexcept { test::release(p); }
void operator delete(void* p, std::size_t) noexcept { test::release(p); }
void operator delete[](void* p, std::size_t) noexcept { test::release(p); }
void operator delete(void* p, std::align_val_t) noexcept { test::release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { test::release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { test::release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { test::release(p); }

// Large blocks come from mmap. ThreadSanitizer calls it before our code may run, so there mmap is not replaced.
#ifndef __SANITIZE_THREAD__
extern "C" void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  if (test::fails()) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
#endif

namespace test {

// Runs f with its first allocation failing, then its second, and so on until f succeeds; returns how many it makes.
template <class F>
long fail_each_allocation(const F& f) {
  for (long n = 0;; ++n) {
    countdown = n;
    bool thrown = false;
    try {
      f();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    const bool reached = countdown < 0;
    countdown = -1;
    BOOST_REQUIRE_EQUAL(thrown, reached);
    if (!thrown) return n;
  }
}

}  // namespace test
