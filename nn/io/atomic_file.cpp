// Files through POSIX: interrupted calls are repeated, every other failure is reported. Digests are xxHash's.
#include "atomic_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/printable.h"

#define XXH_INLINE_ALL  // header-only
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

// Repeats a call that a signal interrupts.
template <class Call>
ssize_t uninterrupted(const Call& call) {
  ssize_t n;
  do n = call();
  while (n < 0 && errno == EINTR);
  return n;
}

}  // namespace

File::File(const std::filesystem::path& path, Open how) : path_(path) {
  const int flags = how == Open::reading    ? O_RDONLY | O_NONBLOCK  // opening a pipe would wait for a writer
                    : how == Open::creating ? O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW
                                            : O_RDONLY | O_DIRECTORY;
  fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_with("cannot open");
  struct stat info {};
  if (how != Open::reading || (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode))) return;
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

void File::flush() {
  if (::fsync(fd_) != 0) fail_with("cannot flush");
}

void File::close() {
  if (::close(std::exchange(fd_, -1)) != 0) fail_with("cannot close");
}

void File::fail_with(const char* what) const {
  const int error = errno;
  fail<FileError>(printable_path(path_), ": ", what, ": ", std::strerror(error));
}

// The random part is new each time, so that the leftovers of a killed process never collide.
void replace_atomically(const std::filesystem::path& name, FunctionRef<void(File&)> write) {
  std::error_code error;
  struct stat old {};
  const bool is_file = ::stat(name.c_str(), &old) == 0 && S_ISREG(old.st_mode);
  const bool is_link = is_file && std::filesystem::is_symlink(name, error);
  const std::filesystem::path path = is_link ? std::filesystem::canonical(name) : name;
  char suffix[32];
  std::random_device random;
  std::snprintf(suffix, sizeof suffix, ".tmp-%08x%08x", random(), random());
  const std::filesystem::path temporary = path.string() + suffix;
  File folder(path.has_parent_path() ? path.parent_path() : ".", File::Open::folder);
  try {
    File file(temporary, File::Open::creating);
    if (is_file && ::chmod(temporary.c_str(), old.st_mode & 0777) != 0)
      fail<FileError>(printable_path(path), ": cannot keep its mode: ", std::strerror(errno));
    write(file);
    file.flush();
    file.close();
    std::filesystem::rename(temporary, path, error);
    check<FileError>(!error, printable_path(path), ": cannot replace: ", error.message());
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  folder.flush();
}

static_assert(sizeof(XXH3_state_t) == 576 && alignof(XXH3_state_t) <= 64);

Digest::Digest() { XXH3_128bits_reset(new (state_) XXH3_state_t); }

void Digest::add(const void* data, std::size_t bytes) {
  if (bytes > 0) XXH3_128bits_update(reinterpret_cast<XXH3_state_t*>(state_), data, bytes);
}

std::string Digest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(reinterpret_cast<const XXH3_state_t*>(state_)));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
