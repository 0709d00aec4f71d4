// Files through POSIX: interrupted calls are repeated, every other failure is reported.
#include "atomic_file.h"

#include "../../autograd/core/check.h"
#include "../data/text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <utility>

namespace seppo::inline SEPPO_ABI {

File::File(const std::filesystem::path& path, Open how) : path_(path) {
  const int flags = how == Open::reading    ? O_RDONLY
                    : how == Open::creating ? O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW
                                            : O_RDONLY | O_DIRECTORY;
  fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_with("cannot open");
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

std::size_t File::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail_with("cannot examine");
  check<FileError>(S_ISREG(info.st_mode), printable_path(path_), ": not a regular file");
  return static_cast<std::size_t>(info.st_size);
}

void File::read(std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(fd_, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with("cannot read");
    check<FormatError>(n != 0, printable_path(path_), ": the file became shorter while it was read");
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

void File::write(const void* bytes, std::size_t size) {
  const auto* data = static_cast<const std::byte*>(bytes);
  while (size > 0) {
    const ssize_t n = ::write(fd_, data, size);
    if (n < 0 && errno == EINTR) continue;
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

void replace_atomically(const std::filesystem::path& path, FunctionRef<void(File&)> write) {
  const std::filesystem::path temporary = path.string() + ".tmp-" + std::to_string(::getpid());
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  try {
    File file(temporary, File::Open::creating);
    write(file);
    file.flush();
    file.close();
    std::error_code error;
    std::filesystem::rename(temporary, path, error);
    check<FileError>(!error, printable_path(path), ": cannot replace: ", error.message());
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  File(folder, File::Open::folder).flush();
}

void write_file_atomically(const std::filesystem::path& path, const std::string& content) {
  replace_atomically(path, [&](File& file) { file.write(content.data(), content.size()); });
}

}  // namespace seppo::inline SEPPO_ABI
