// A bound on the size, then one read.
#include "whole_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/file.h"

#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {

std::string read_whole(const std::filesystem::path& path) {
  constexpr std::uint64_t kMost = 64 << 20;
  const File file(path, File::Open::reading);
  check<FormatError>(file.size() <= kMost, printable_path(path), ": has ", file.size(), " bytes, more than ", kMost);
  std::string all(file.size(), '\0');
  file.read_at(0, all.data(), all.size());
  return all;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
