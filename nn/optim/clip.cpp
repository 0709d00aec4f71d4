// The norm of the gradients.
#include "clip.h"

#include "../../autograd/core/parallel.h"
#include "../../autograd/kernels/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace seppo {
inline namespace SEPPO_ABI {

// In blocks whose sums are added in order, so that the result does not depend on the number of threads. A block in
// which nothing is trained is zero, and left out.
double gradient_norm(const Parameters& parameters) {
  std::array<double, 64> squares{};
  const std::span<const real> g = parameters.gradients();
  const std::size_t block = std::max(std::size_t{1} << 20, (g.size() + squares.size() - 1) / squares.size());
  parallel_for(0, g.size(), block, [&](std::size_t begin, std::size_t end) {
    const auto is_within = [&](const Parameters::Run& run) { return run.begin < end && begin < run.end; };
    if (std::ranges::none_of(parameters.trained_runs(), is_within)) return;
    squares[begin / block] = kernels::squared_norm(g.data() + begin, end - begin);
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
