// Data is sent in pieces: a message has at most a gibibyte, and no rank should have to wait long for the end of one.
#include "app/first_rank.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/atomic_file.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 22;

}  // namespace

void copy_from_first_rank(std::span<std::byte> data) {
  if (seppo::ranks() == 1) return;
  for (; !data.empty(); data = data.subspan(std::min(kPiece, data.size()))) {
    const std::span<std::byte> piece = data.first(std::min(kPiece, data.size()));
    const std::string_view own(reinterpret_cast<const char*>(piece.data()), seppo::rank() == 0 ? piece.size() : 0);
    const std::string first = seppo::gather_over_ranks(own)[0];
    std::memcpy(piece.data(), first.data(), piece.size());
  }
}

std::filesystem::path file_of_first_rank(const std::filesystem::path& path) {
  using seppo::File;
  if (seppo::ranks() == 1) return path;
  if (seppo::rank() == 0) {
    File file(path, File::Open::reading);
    const std::uint64_t size = of_first_rank(file.size());
    std::vector<std::byte> piece;
    for (std::uint64_t at = 0; at < size; at += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, size - at)));
      file.read_at(at, piece.data(), piece.size());
      copy_from_first_rank(piece);
    }
    return path;
  }
  const auto check = [&](bool ok) {
    seppo::check<seppo::FileError>(ok, seppo::printable_path(path), ": a copy in memory: ", std::strerror(errno));
  };
  const int fd = ::memfd_create(path.filename().c_str(), MFD_CLOEXEC);  // stays open until the process ends
  check(fd >= 0);
  const std::uint64_t size = of_first_rank(std::uint64_t{0});
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, size - at)));
    copy_from_first_rank(piece);
    for (std::size_t written = 0; written < piece.size();) {
      const ::ssize_t n = ::write(fd, piece.data() + written, piece.size() - written);
      check(n > 0 || (n < 0 && errno == EINTR));
      written += static_cast<std::size_t>(std::max<::ssize_t>(n, 0));
    }
  }
  return fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace examples
