// Replaces a file by renaming a temporary one.
#include "atomic_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/printable.h"

#include <cstdio>
#include <random>
#include <string>
#include <system_error>
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

}  // namespace

void replace_atomically(const std::filesystem::path& name, FunctionRef<void(File&)> write) {
  std::error_code error;
  const std::filesystem::file_status old = std::filesystem::status(name, error);
  const bool is_file = std::filesystem::is_regular_file(old);
  const bool is_link = is_file && std::filesystem::is_symlink(name, error);
  const std::filesystem::path path = is_link ? std::filesystem::canonical(name) : name;
  const std::filesystem::path temporary = path.string() + random_suffix();
  File folder(path.has_parent_path() ? path.parent_path() : ".", File::Open::folder);
  try {
    File file(temporary, File::Open::creating);
    if (is_file) std::filesystem::permissions(temporary, old.permissions() & std::filesystem::perms(0777), error);
    check<FileError>(!is_file || !error, printable_path(path), ": cannot keep its mode: ", error.message());
    write(file);
    file.flush();
    file.close();
    std::filesystem::rename(temporary, path, error);
    check<FileError>(!error, printable_path(path), ": cannot replace: ", error.message());
  } catch (...) {
    std::filesystem::remove(temporary, error);
    throw;
  }
  folder.flush();
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
