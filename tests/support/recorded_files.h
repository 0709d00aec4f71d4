// Records the file operations of this process in order, by path: writes, fsync, renames and removals; one of them can
// be made to fail, to wait, or to be the last. For test programs with a single source file.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace test {

struct FileEvent {
  std::string what;  // write, fsync, rename, remove
  std::filesystem::path path;
  std::filesystem::path to = {};  // for a rename
};

// In place of an error: the process ends as if it were killed, with exit code 137.
constexpr int kKilled = -1;

namespace recorded {
inline std::mutex mutex;
inline std::vector<FileEvent> events;
inline bool is_recording = false;
inline int fail_at = -1;  // the event with this index fails
inline int error = EIO;   // with this
inline bool is_held = false;
inline std::condition_variable released;

inline std::filesystem::path path_of(int fd) {
  char link[32], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, path, sizeof path);
  return n < 0 ? std::string() : std::string(path, static_cast<std::size_t>(n));
}

// Returns whether the call should be made.
inline bool note(FileEvent event) {
  std::unique_lock lock(mutex);
  if (!is_recording) return true;
  const bool fails = static_cast<int>(events.size()) == fail_at;
  const bool is_flush = event.what == "fsync";
  events.push_back(std::move(event));
  if (is_flush && !released.wait_for(lock, std::chrono::seconds(10), [] { return !is_held; })) is_held = false;
  if (fails && error == kKilled) ::_exit(137);
  if (fails) errno = error;
  return !fails;
}
}  // namespace recorded

// While one lives, flushing waits: for ten seconds at most, so that a test in which nobody else goes on fails.
struct HeldFlushes {
  HeldFlushes() { set(true); }
  ~HeldFlushes() { set(false); }

 private:
  static void set(bool is_held) {
    const std::scoped_lock lock(recorded::mutex);
    recorded::is_held = is_held;
    recorded::released.notify_all();
  }
};

template <class F>
std::vector<FileEvent> record_files(const F& f, int fail_at = -1, int error = EIO) {
  struct Scope {
    Scope(int fail_at, int error) {
      const std::scoped_lock lock(recorded::mutex);
      recorded::events.clear();
      recorded::fail_at = fail_at;
      recorded::error = error;
      recorded::is_recording = true;
    }
    ~Scope() {
      const std::scoped_lock lock(recorded::mutex);
      recorded::is_recording = false;
    }
  };
  const Scope scope(fail_at, error);
  f();
  const std::scoped_lock lock(recorded::mutex);
  return recorded::events;
}

}  // namespace test

// Our definitions of the C library's functions replace the originals, also for the C++ library.
extern "C" {
ssize_t write(int fd, const void* data, size_t size) {
  if (!test::recorded::note({"write", test::recorded::path_of(fd)})) return -1;
  return ::syscall(SYS_write, fd, data, size);
}
int fsync(int fd) {
  if (!test::recorded::note({"fsync", test::recorded::path_of(fd)})) return -1;
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
int rename(const char* from, const char* to) noexcept {
  if (!test::recorded::note({"rename", from, to})) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int unlink(const char* path) noexcept {
  if (!test::recorded::note({"remove", path})) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int remove(const char* path) noexcept {
  if (!test::recorded::note({"remove", path})) return -1;
  const auto removed = static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
  return removed != 0 && errno == EISDIR ? static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR))
                                         : removed;
}
}
