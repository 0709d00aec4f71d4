// POSIX, and what Linux and macOS have beyond it.
#include "../system.h"

#include <fcntl.h>
#if defined(__linux__)
#include <linux/fs.h>
#include <sys/syscall.h>
#endif
#include <unistd.h>
#include <cerrno>
#include <cstdio>

namespace seppo {
inline namespace SEPPO_ABI {

std::ptrdiff_t read_standard_input(void* data, std::size_t size) {
  ssize_t n;
  do n = ::read(STDIN_FILENO, data, size);
  while (n < 0 && errno == EINTR);
  return n;
}

bool exchange_names(const std::filesystem::path& a, const std::filesystem::path& b) {
#if defined(__linux__)
  // The C library of musl has no renameat2().
  return ::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
#elif defined(__APPLE__)
  return ::renamex_np(a.c_str(), b.c_str(), RENAME_SWAP) == 0;
#else
  errno = ENOSYS;
  return false;
#endif
}

std::tm local_time(std::time_t time) {
  std::tm local{};
  ::localtime_r(&time, &local);
  return local;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
