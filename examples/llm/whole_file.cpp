// A bound on the size, then one read.
#include "llm/whole_file.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/atomic_file.h>

#include <cstdint>

namespace llm {

std::string read_whole(const std::filesystem::path& path) {
  constexpr std::uint64_t kMost = 64 << 20;
  const seppo::File file(path, seppo::File::Open::reading);
  seppo::check<seppo::FormatError>(file.size() <= kMost, seppo::printable_path(path), ": has ", file.size(),
                                   " bytes, more than ", kMost);
  std::string all(file.size(), '\0');
  file.read_at(0, all.data(), all.size());
  return all;
}

}  // namespace llm
