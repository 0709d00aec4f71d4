// Positional encodings: a table [max_positions, d_model] whose row n is added at position n of a sequence.
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"

#include <cmath>
#include <vector>

namespace seppo::inline SEPPO_ABI {

enum class Positions {
  none,
  sinusoid,    // sin(n / 10000^(2i/d)) in column 2i, cos of the same angle in column 2i + 1 (Vaswani et al. 2017, 3.5)
  cosinusoid,  // the same with cos in column 2i and sin in column 2i + 1
  learned      // a parameter, N(0, 0.02^2)
};

inline std::span<const char* const> enum_names(Positions) {
  static constexpr const char* kNames[] = {"none", "sinusoid", "cosinusoid", "learned"};
  return kNames;
}

// The element of the sinusoid table. Columns 2i and 2i + 1 change places in the cosinusoid: column ^ 1.
inline double sinusoid(int position, int column, int d_model) {
  const double angle = position / std::pow(10000.0, static_cast<double>(column / 2 * 2) / d_model);
  return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

struct PositionalEncoding {
  PositionalEncoding(const Scope& s, Positions kind, int length, int d_model) : max_positions(length) {
    check<ArgumentError>(max_positions > 0, "positional encoding: max_positions ", max_positions, " is not positive");
    if (kind == Positions::none) return;
    if (kind == Positions::learned) {
      table = s.parameter("weight", {max_positions, d_model}, init_normal(0.02));
      return;
    }
    table = s.constant({length, d_model}, [=](std::span<real> values, const Shape&, RandomStream&) {
      std::size_t i = 0;
      for (int n = 0; n < length; ++n)
        for (int j = 0; j < d_model; ++j)
          values[i++] = static_cast<real>(sinusoid(n, kind == Positions::sinusoid ? j : j ^ 1, d_model));
    });
  }
  // Any other table [max_positions, d_model], as Scope::constant or Scope::parameter makes one.
  explicit PositionalEncoding(const Tensor& any) : table(any), max_positions(any.size(0)) {}

  // x + encoding, for x [rows, d_model] with the sequences at `rows`.
  Tensor operator()(const Tensor& x, Offsets rows) const {
    return table.defined() ? x + embedding(table, ids(rows)) : x;
  }

  // The position of each row within its sequence, on the tape: 0, 1, 2 ..., or first[s], first[s] + 1 ... if given.
  // Throws IndexError past the table's end.
  std::span<const int> ids(Offsets rows, std::span<const int> first = {}) const {
    int* const positions = tape().allocate<int>(static_cast<std::size_t>(rows.back()));
    for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
      const int begin = first.empty() ? 0 : first[s], end = begin + rows[s + 1] - rows[s];
      check<IndexError>(end <= max_positions, "positional encoding: sequence ", s, " has ", end,
                        " positions, the table ", max_positions);
      for (int n = begin; n < end; ++n) positions[rows[s] + n - begin] = n;
    }
    return {positions, static_cast<std::size_t>(rows.back())};
  }

  Tensor table;  // undefined for Positions::none
  int max_positions;
};

}  // namespace seppo::inline SEPPO_ABI
