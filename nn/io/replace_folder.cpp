// Two folders exchange their names in one step, which Linux and macOS can do, and the old one is removed.
#include "replace_folder.h"

#include "file.h"
#include "system.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <cerrno>
#include <cstring>

namespace seppo {
inline namespace SEPPO_ABI {

namespace fs = std::filesystem;

namespace {

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  check<FileError>(!error, printable_path(folder), ": cannot be made: ", error.message());
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  check<FileError>(!error, printable_path(to), ": cannot be replaced: ", error.message());
}

// Removes it with all that is in it, if it is there.
void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  check<FileError>(!error, printable_path(folder), ": cannot be removed: ", error.message());
}

// A name that nobody else gives.
fs::path name_of_old(fs::path folder) { return folder += ".partial.old"; }

// `made` becomes `folder`, and the folder that was there becomes `made`.
void exchange(const fs::path& made, const fs::path& folder) {
  if (exchange_names(made, folder)) return;
  const bool is_unknown = errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;  // to this file system
  check<FileError>(is_unknown, printable_path(folder), ": cannot be replaced: ", std::strerror(errno));
  const fs::path old = name_of_old(folder);  // three renamings instead
  remove_folder(old);                        // of a process that was killed after the second
  rename_or_fail(folder, old);
  try {
    rename_or_fail(made, folder);
  } catch (const FileError&) {
    std::error_code error;
    fs::rename(old, folder, error);
    throw;
  }
  rename_or_fail(old, made);
}

// A process that was killed between the first two names has left the folder under the other one.
void restore_old(const fs::path& given) {
  fs::path folder = fs::weakly_canonical(given);
  if (!folder.has_filename()) folder = folder.parent_path();  // "folder/"
  const fs::path old = name_of_old(folder);
  if (!fs::exists(folder) && fs::exists(old)) rename_or_fail(old, folder);
}

}  // namespace

void replace_folder(const fs::path& given, const std::function<void(const fs::path&)>& write,
                    const std::function<bool(const std::string&)>& is_replaced) {
  restore_old(given);
  make_folder(given);
  const fs::path folder = fs::canonical(given);  // the target of a link, which stays
  fs::path made = folder;
  made += ".partial";
  remove_folder(made);
  make_folder(made);
  try {
    write(made);
    exchange(made, folder);
  } catch (...) {
    std::error_code error;
    fs::remove_all(made, error);
    throw;
  }
  for (const auto& entry : fs::directory_iterator(made)) {
    const fs::path kept = folder / entry.path().filename();
    if (!is_replaced(entry.path().filename().string()) && !fs::exists(kept)) rename_or_fail(entry.path(), kept);
  }
  remove_folder(made);
  File(folder.parent_path(), File::Open::folder).flush();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
