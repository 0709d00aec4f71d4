// Data is sent in pieces: a message has at most a gibibyte, and no rank should have to wait long for the end of one.
#include "app/first_rank.h"

#include <seppo/nn/train/ranks.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

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

}  // namespace examples
