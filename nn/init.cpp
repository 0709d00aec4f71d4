// Drawing initial values on all threads.
#include "init.h"

#include "../autograd/core/parallel.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

void draw_in_pieces(std::span<real> values, RandomStream& random,
                    FunctionRef<void(std::span<real> piece, RandomStream& random)> fill) {
  constexpr std::size_t kPiece = std::size_t{1} << 15;  // 0.2 to 1 ms; even, as normal() draws two numbers at a time
  const auto fill_piece = [&](std::size_t first, std::size_t last) {
    RandomStream own = random;
    own.skip(2 * first);
    fill(values.subspan(first, last - first), own);
  };
  parallel_range(0, values.size(), kPiece, fill_piece);
  random.skip(2 * (values.size() + values.size() % 2));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
