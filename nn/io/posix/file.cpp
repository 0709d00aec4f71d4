// Files through POSIX: interrupted calls are repeated, every other failure is reported.
#include "../file.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Repeats a call that a signal interrupts.
template <class Call>
ssize_t uninterrupted(const Call& call) {
  ssize_t n;
  do {
    n = call();
  } while (n < 0 && errno == EINTR);
  return n;
}

int flags_of(File::Open how) {
  switch (how) {
    case File::Open::reading:
      return O_RDONLY | O_NONBLOCK;  // opening a pipe would wait for a writer
    case File::Open::creating:
      return O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    case File::Open::folder:
      return O_RDONLY | O_DIRECTORY;
  }
  return 0;
}

}  // namespace

File::File(const std::filesystem::path& path, Open how) : path_(path) {
  fd_ = ::open(path.c_str(), flags_of(how) | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_with("cannot open");
  if (how != Open::reading) return;
  struct stat info {};
  if (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) return;
  ::close(fd_);
  fail<FileError>(printable_path(path_), ": is ", kind_of(info.st_mode), ", not a file");
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

std::uint64_t File::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail_with("cannot examine");
  return static_cast<std::uint64_t>(info.st_size);
}

std::size_t File::read_some(void* data, std::size_t size) {
  const ssize_t n = uninterrupted([&] { return ::read(fd_, data, size); });
  if (n < 0) fail_with("cannot read");
  return static_cast<std::size_t>(n);
}

void File::read_at(std::uint64_t offset, void* bytes, std::size_t size) const {
  auto* data = static_cast<std::byte*>(bytes);
  while (size > 0) {
    const ssize_t n = uninterrupted([&] { return ::pread(fd_, data, size, static_cast<off_t>(offset)); });
    if (n < 0) fail_with("cannot read");
    check<FormatError>(n != 0, printable_path(path_), ": ends at byte ", offset, ", before ", size, " more");
    data += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
}

void File::write(const void* bytes, std::size_t size) {
  const auto* data = static_cast<const std::byte*>(bytes);
  while (size > 0) {
    const ssize_t n = uninterrupted([&] { return ::write(fd_, data, size); });
    if (n < 0) fail_with("cannot write");
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

void File::write_at(std::uint64_t offset, const void* bytes, std::size_t size) {
  const auto* data = static_cast<const std::byte*>(bytes);
  while (size > 0) {
    const ssize_t n = uninterrupted([&] { return ::pwrite(fd_, data, size, static_cast<off_t>(offset)); });
    if (n < 0) fail_with("cannot write");
    data += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
}

void File::flush() {
  if (uninterrupted([&] { return ::fsync(fd_); }) == 0) return;
  const int error = errno;
  struct stat info {};
  const bool is_folder = ::fstat(fd_, &info) == 0 && S_ISDIR(info.st_mode);
  if (is_folder && (error == EINVAL || error == EBADF)) return;  // a file system that does not flush folders
  errno = error;
  fail_with("cannot flush");
}

void File::close() {
  if (::close(std::exchange(fd_, -1)) != 0) fail_with("cannot close");
}

void File::fail_with(const char* what) const {
  const int error = errno;
  fail<FileError>(printable_path(path_), ": ", what, ": ", std::strerror(error));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
