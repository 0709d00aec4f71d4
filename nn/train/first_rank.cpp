// Data is sent in pieces: a message has at most a gibibyte, and no rank should have to wait long for the end of one.
#include "first_rank.h"

#include "ranks.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

void copy_from_first_rank(std::span<std::byte> data) {
  constexpr std::size_t kPiece = std::size_t{1} << 22;
  if (ranks() == 1) return;
  while (!data.empty()) {
    const std::span<std::byte> piece = data.first(std::min(kPiece, data.size()));
    const std::string_view own(reinterpret_cast<const char*>(piece.data()), rank() == 0 ? piece.size() : 0);
    const std::string first = gather_over_ranks(own)[0];
    std::memcpy(piece.data(), first.data(), piece.size());
    data = data.subspan(piece.size());
  }
}

}  // namespace SEPPO_ABI
}  // namespace seppo
