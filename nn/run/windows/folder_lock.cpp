// FolderLock: a file in the folder that no other process can open, and that the system removes with this process.
#include "../folder_lock.h"

#include "../../../autograd/core/check.h"
#include "../../../autograd/core/printable.h"

#define NOMINMAX
#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <system_error>

namespace seppo {
inline namespace SEPPO_ABI {

FolderLock::FolderLock(const std::filesystem::path& folder) : fd_(-1) {
  const std::filesystem::path file = folder / ".seppo-lock";
  const HANDLE handle = CreateFileW(file.c_str(), GENERIC_WRITE, /*shared=*/0, nullptr, OPEN_ALWAYS,
                                    FILE_ATTRIBUTE_HIDDEN | FILE_FLAG_DELETE_ON_CLOSE, nullptr);
  if (handle == INVALID_HANDLE_VALUE) {
    const DWORD error = GetLastError();
    check<FileError>(error != ERROR_SHARING_VIOLATION, printable_path(folder),
                     ": another training is writing into this folder");
    fail<FileError>(printable_path(folder), ": cannot lock: ", std::system_category().message(static_cast<int>(error)));
  }
  fd_ = _open_osfhandle(reinterpret_cast<std::intptr_t>(handle), _O_WRONLY);
}

FolderLock::~FolderLock() { _close(fd_); }

// While a file in it is open, Windows neither removes nor replaces the folder.
void FolderLock::check_still(const std::filesystem::path& folder) const {
  std::error_code ignored;
  check<FileError>(std::filesystem::exists(folder / ".seppo-lock", ignored), printable_path(folder),
                   ": was removed or replaced during this training, which ends without writing there");
}

}  // namespace SEPPO_ABI
}  // namespace seppo
