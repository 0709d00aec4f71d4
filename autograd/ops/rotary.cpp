// Rotary positions.
#include "op.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Rotates a head's columns of a row by the angles, or back (direction -1): to = beta to + the result
void turn(real* to, real beta, const real* from, const real* angles, int width, RotaryPairs pairs, real direction) {
  const bool is_halves = pairs == RotaryPairs::halves;
  const int stride = is_halves ? 1 : 2;  // from one pair to the next
  const int partner = is_halves ? width / 2 : 1;
  for (int pair = 0; pair < width / 2; ++pair) {
    const real cosine = angles[2 * pair];
    const real sine = direction * angles[2 * pair + 1];
    const int a = pair * stride;
    const int b = a + partner;
    const real x = from[a];
    const real y = from[b];
    to[a] = (beta == 0 ? 0 : to[a]) + x * cosine - y * sine;
    to[b] = (beta == 0 ? 0 : to[b]) + x * sine + y * cosine;
  }
}

}  // namespace

Tensor rotary(const Columns& x, int n_heads, const Tensor& table, std::span<const int> positions, RotaryPairs pairs) {
  const bool is_within = x.matrix.rank() == 2 && x.first >= 0 && x.count > 0 && x.count <= x.matrix.size(1) - x.first;
  check(is_within, "rotary: columns ", x.first, "..", std::int64_t{x.first} + x.count, " are not within a matrix ",
        x.matrix);
  const bool has_pairs = n_heads > 0 && x.count % n_heads == 0 && x.count / n_heads % 2 == 0;
  check<ArgumentError>(has_pairs, "rotary: width ", x.count, " is not that of ", n_heads, " heads of pairs");
  const int width = x.count / n_heads;
  const bool is_table = table.rank() == 2 && table.size(1) <= width && table.size(1) % 2 == 0;
  check(is_table, "rotary: table ", table, " is not [positions, ", width, "], or fewer columns, in pairs");
  const int turned = table.size(1);
  check(positions.size() == x.matrix.rows(), "rotary: ", positions.size(), " positions for the rows of x ", x.matrix);
  check_indices("rotary", "position", positions, table.rows(), ", the rows of table ", table);
  const Tensor y = tape().create({x.matrix.size(0), x.count});
  const auto kept = tape().keep(positions);
  // Calls f(element of x, element of y, angles) for each row and head.
  const auto for_each_head = [=](const auto& f) {
    for (std::size_t r = 0; r < y.rows(); ++r) {
      const std::size_t row_of_x = r * x.matrix.cols() + static_cast<std::size_t>(x.first);
      const std::size_t row_of_y = r * y.cols();
      const real* const angles = table.data() + static_cast<std::size_t>(kept[r]) * table.cols();
      for (int h = 0; h < n_heads; ++h) {
        const std::size_t head = static_cast<std::size_t>(h) * static_cast<std::size_t>(width);
        f(row_of_x + head, row_of_y + head, angles);
      }
    }
  };
  for_each_head([&](std::size_t ix, std::size_t iy, const real* angles) {
    turn(y.data() + iy, 0, x.matrix.data() + ix, angles, turned, pairs, 1);
    std::copy(x.matrix.data() + ix + turned, x.matrix.data() + ix + width, y.data() + iy + turned);
  });
  record("rotary", y, {x.matrix, detach(table)}, [=] {
    real* const dx = grad_of(x.matrix);
    for_each_head([&](std::size_t ix, std::size_t iy, const real* angles) {
      turn(dx + ix, 1, grad_of(y) + iy, angles, turned, pairs, -1);
      for (int j = turned; j < width; ++j)
        dx[ix + static_cast<std::size_t>(j)] += grad_of(y)[iy + static_cast<std::size_t>(j)];
    });
  });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
