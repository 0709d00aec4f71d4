// Files through the C library of Windows. A folder cannot be opened there, and needs no flush.
#include "../file.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"

#define NOMINMAX
#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

constexpr int kFolder = -2;  // in place of a descriptor
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

unsigned piece_of(std::size_t size) { return static_cast<unsigned>(std::min(size, kMostBytes)); }

// Reads or writes at a position, whatever the file's own is.
template <class Function, class Bytes>
std::size_t at_position(int fd, std::uint64_t offset, Bytes* data, std::size_t size, Function transfer) {
  OVERLAPPED position{};
  position.Offset = static_cast<DWORD>(offset);
  position.OffsetHigh = static_cast<DWORD>(offset >> 32);
  DWORD done = 0;
  const auto handle = reinterpret_cast<HANDLE>(_get_osfhandle(fd));
  if (transfer(handle, data, piece_of(size), &done, &position)) return done;
  errno = GetLastError() == ERROR_HANDLE_EOF ? 0 : EIO;
  return 0;
}

}  // namespace

File::File(const std::filesystem::path& path, Open how) : path_(path), fd_(kFolder) {
  if (how == Open::folder) return;
  const bool reads = how == Open::reading;
  std::error_code ignored;
  if (reads && std::filesystem::is_directory(path, ignored))
    fail<FileError>(printable_path(path_), ": is a folder, not a file");
  const int flags = _O_BINARY | _O_NOINHERIT | (reads ? _O_RDONLY : _O_WRONLY | _O_CREAT | _O_EXCL);
  fd_ = _wopen(path.c_str(), flags, _S_IREAD | _S_IWRITE);
  if (fd_ < 0) fail_with("cannot open");
  if (!reads || std::filesystem::is_regular_file(path, ignored)) return;
  _close(fd_);
  fail<FileError>(printable_path(path_), ": is a device, not a file");
}

File::~File() {
  if (fd_ >= 0) _close(fd_);
}

std::uint64_t File::size() const {
  struct _stat64 info {};
  if (_fstat64(fd_, &info) != 0) fail_with("cannot examine");
  return static_cast<std::uint64_t>(info.st_size);
}

std::size_t File::read_some(void* data, std::size_t size) {
  const int n = _read(fd_, data, piece_of(size));
  if (n < 0) fail_with("cannot read");
  return static_cast<std::size_t>(n);
}

void File::read_at(std::uint64_t offset, void* bytes, std::size_t size) const {
  auto* data = static_cast<std::byte*>(bytes);
  while (size > 0) {
    errno = 0;
    const std::size_t n = at_position(fd_, offset, data, size, ReadFile);
    if (n == 0 && errno != 0) fail_with("cannot read");
    check<FormatError>(n != 0, printable_path(path_), ": ends at byte ", offset, ", before ", size, " more");
    data += n;
    offset += n;
    size -= n;
  }
}

void File::write(const void* bytes, std::size_t size) {
  const auto* data = static_cast<const std::byte*>(bytes);
  while (size > 0) {
    const int n = _write(fd_, data, piece_of(size));
    if (n < 0) fail_with("cannot write");
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

void File::write_at(std::uint64_t offset, const void* bytes, std::size_t size) {
  const auto* data = static_cast<const std::byte*>(bytes);
  const std::int64_t end = _telli64(fd_);
  while (size > 0) {
    const std::size_t n = at_position(fd_, offset, data, size, WriteFile);
    if (n == 0) fail_with("cannot write");
    data += n;
    offset += n;
    size -= n;
  }
  if (_lseeki64(fd_, end, SEEK_SET) != end) fail_with("cannot write");
}

void File::flush() {
  if (fd_ != kFolder && _commit(fd_) != 0) fail_with("cannot flush");
}

void File::close() {
  if (_close(std::exchange(fd_, -1)) != 0) fail_with("cannot close");
}

void File::fail_with(const char* what) const {
  const int error = errno;
  fail<FileError>(printable_path(path_), ": ", what, ": ", std::strerror(error));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
