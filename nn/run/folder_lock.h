// FolderLock: one process at a time writes into a folder.
#pragma once

#include "../../autograd/core/real.h"

#include <filesystem>

namespace seppo {
inline namespace SEPPO_ABI {

// Keeps other processes from locking a folder, on file systems that have locks. Throws FileError if another process has
// locked it, or if it cannot be opened or locked.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  // Throws FileError if this path is no longer the folder that was locked: it was removed, or another is in its place.
  void check_still(const std::filesystem::path& folder) const;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
