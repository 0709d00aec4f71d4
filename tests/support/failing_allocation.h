// Allocations that fail in turn, as SQLite's tests have it. It replaces operator new: for one file of an executable.
#pragma once

#include <boost/test/unit_test.hpp>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <new>

namespace test {

// Counts down while armed; the allocation that reaches zero fails. If failures last, so do all after it.
inline std::atomic<long> countdown{-1};
inline std::atomic<bool> failures_last{false}, has_failed{false};
inline std::atomic<long> live{0};
inline std::atomic<std::size_t> largest{0};  // bytes of one allocation

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

// Inlined, malloc and free look mismatched to the compiler.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size) { return test::allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return test::allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t a) { return test::allocate(size, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t size, std::align_val_t a) { return test::allocate(size, static_cast<std::size_t>(a)); }
// Whoever asks in this way goes on without: std::stable_sort.
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

// Large blocks come from here. ThreadSanitizer calls it before it is ready for code of ours: there they do not fail.
#ifndef __SANITIZE_THREAD__
extern "C" void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  if (test::fails()) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
#endif

namespace test {

// Runs f with each allocation failing in turn, until it needs fewer than that; returns how many there were.
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
