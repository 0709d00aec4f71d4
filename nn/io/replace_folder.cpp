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

using IsReplaced = std::function<bool(const std::string&)>;

// Removes it with all that is in it, if it is there.
void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  check<FileError>(!error, printable_path(folder), ": cannot be removed: ", error.message());
}

// A name that nobody else gives.
fs::path name_of_old(fs::path folder) { return folder += ".partial.old"; }

// `made` becomes `folder`, and the folder that was there becomes `old`.
void exchange(const fs::path& made, const fs::path& folder, const fs::path& old) {
  rename_or_fail(made, old);  // so that the old folder never has a name that is removed
  if (exchange_names(old, folder)) return;
  const int reason = errno;
  rename_or_fail(old, made);
  const bool is_unknown = reason == EINVAL || reason == ENOSYS || reason == ENOTSUP;  // to this file system
  check<FileError>(is_unknown, printable_path(folder), ": cannot be replaced: ", std::strerror(reason));
  rename_or_fail(folder, old);  // two renamings instead
  try {
    rename_or_fail(made, folder);
  } catch (const FileError&) {
    std::error_code error;
    fs::rename(old, folder, error);
    throw;
  }
}

// Moves the files that the new folder keeps out of the old one, and removes it.
void keep_files(const fs::path& old, const fs::path& folder, const IsReplaced& is_replaced) {
  for (const auto& entry : fs::directory_iterator(old)) {
    const fs::path kept = folder / entry.path().filename();
    if (!is_replaced(entry.path().filename().string()) && !fs::exists(kept)) rename_or_fail(entry.path(), kept);
  }
  remove_folder(old);
}

// A process that was killed has left the folder that was there under the other name: alone, or beside the new one.
void finish_earlier(const fs::path& given, const IsReplaced& is_replaced) {
  fs::path folder = fs::weakly_canonical(given);
  if (!folder.has_filename()) folder = folder.parent_path();  // "folder/"
  const fs::path old = name_of_old(folder);
  if (!fs::is_directory(old)) return;
  if (fs::exists(folder))
    keep_files(old, folder, is_replaced);
  else
    rename_or_fail(old, folder);
}

}  // namespace

void replace_folder(const fs::path& given, const std::function<void(const fs::path&)>& write,
                    const IsReplaced& is_replaced) {
  finish_earlier(given, is_replaced);
  make_folder(given);
  const fs::path folder = fs::canonical(given);  // the target of a link, which stays
  fs::path made = folder;
  made += ".partial";
  remove_folder(made);
  make_folder(made);
  try {
    write(made);
    exchange(made, folder, name_of_old(folder));
  } catch (...) {
    std::error_code error;
    fs::remove_all(made, error);
    throw;
  }
  keep_files(name_of_old(folder), folder, is_replaced);
  File(folder.parent_path(), File::Open::folder).flush();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
