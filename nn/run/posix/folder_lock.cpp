// FolderLock: an advisory lock of the folder itself, which the system releases whatever ends the process.
#include "../folder_lock.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace seppo {
inline namespace SEPPO_ABI {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  check<FileError>(fd_ >= 0, printable_path(folder), ": cannot open: ", std::strerror(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  if (error == ENOSYS || error == ENOTSUP || error == EOPNOTSUPP) return;  // a file system without locks
  ::close(fd_);
  check<FileError>(error != EWOULDBLOCK, printable_path(folder), ": another training is writing into this folder");
  fail<FileError>(printable_path(folder), ": cannot lock: ", std::strerror(error));
}

FolderLock::~FolderLock() { ::close(fd_); }

void FolderLock::check_still(const std::filesystem::path& folder) const {
  struct stat now {
  }, locked{};
  const bool is_there = ::stat(folder.c_str(), &now) == 0 && ::fstat(fd_, &locked) == 0;
  check<FileError>(is_there && now.st_dev == locked.st_dev && now.st_ino == locked.st_ino, printable_path(folder),
                   ": was removed or replaced during this training, which ends without writing there");
}

}  // namespace SEPPO_ABI
}  // namespace seppo
