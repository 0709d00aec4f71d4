// Replaces a file by renaming a temporary one.
#include "atomic_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/scoped_value.h"

#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

// Unlike others in this folder, even those left by a killed process.
std::string random_suffix() {
  char suffix[32];
  std::random_device random;
  std::snprintf(suffix, sizeof suffix, ".tmp-%08x%08x", random(), random());
  return suffix;
}

// The name of a temporary file, which is removed unless it was renamed.
struct TemporaryName {
  std::filesystem::path path;
  bool is_renamed = false;

  explicit TemporaryName(const std::filesystem::path& beside) : path(beside.string() + random_suffix()) {}
  ~TemporaryName() {
    std::error_code error;
    if (!is_renamed) std::filesystem::remove(path, error);
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
};

// A temporary file that is to replace another.
class Replacement {
 public:
  explicit Replacement(const std::filesystem::path& name)
      : path_(is_link_to_file(name) ? std::filesystem::canonical(name) : name),
        folder_(path_.has_parent_path() ? path_.parent_path() : ".", File::Open::folder),
        temporary_(path_),
        file_(temporary_.path, File::Open::creating) {}

  void write(FunctionRef<void(File&)> content) {
    take_mode();
    content(file_);
  }

  void finish() {
    file_.flush();
    file_.close();
    std::error_code error;
    std::filesystem::rename(temporary_.path, path_, error);
    check<FileError>(!error, printable_path(path_), ": cannot replace: ", error.message());
    temporary_.is_renamed = true;
    folder_.flush();
  }

 private:
  static bool is_link_to_file(const std::filesystem::path& name) {
    std::error_code error;
    return std::filesystem::is_regular_file(name, error) && std::filesystem::is_symlink(name, error);
  }

  // Of the file that is replaced.
  void take_mode() {
    std::error_code error;
    const std::filesystem::file_status old = std::filesystem::status(path_, error);
    if (!std::filesystem::is_regular_file(old)) return;
    std::filesystem::permissions(temporary_.path, old.permissions() & std::filesystem::perms(0777), error);
    check<FileError>(!error, printable_path(path_), ": cannot keep its mode: ", error.message());
  }

  std::filesystem::path path_;
  File folder_;
  TemporaryName temporary_;
  File file_;
};

using Replacements = std::vector<std::unique_ptr<Replacement>>;
thread_local Replacements* later = nullptr;  // receives those that are not finished at once

}  // namespace

void replace_atomically(const std::filesystem::path& name, FunctionRef<void(File&)> write) {
  auto replacement = std::make_unique<Replacement>(name);
  replacement->write(write);
  if (later)
    later->push_back(std::move(replacement));
  else
    replacement->finish();
}

std::function<void()> replace_atomically_later(FunctionRef<void()> write) {
  const auto replacements = std::make_shared<Replacements>();
  const ScopedValue collecting(later, replacements.get());
  write();
  return [replacements] {
    for (const auto& replacement : *replacements) replacement->finish();
  };
}

void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to) {
  replace_atomically(to, [&](File& copy) {
    File original(from, File::Open::reading);
    std::vector<char> piece(std::size_t{1} << 20);
    while (const std::size_t n = original.read_some(piece.data(), piece.size())) copy.write(piece.data(), n);
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
