// Positional encodings: a table [max_positions, d_model] whose row n is added at position n.
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"

#include <cmath>
#include <vector>

namespace seppo::inline SEPPO_ABI {

enum class Positions {
  none,
  sinusoid,        // sin(n / 10000^(2i/d)) in column 2i, cos of the same in 2i + 1 (Vaswani et al. 2017, 3.5)
  cosinusoid,      // the same with cos in column 2i, sin in 2i + 1
  floor_sinusoid,  // sin n, cos n in turn: what sinusoid becomes if 2i/d is rounded down, as a course has it
  count,           // n in every column
  simple,          // n / max_positions in every column
  binary,          // the digits of n in base two, the lowest in column 0
  learned          // a parameter, N(0, 0.02^2)
};

struct PositionalEncoding {
  PositionalEncoding(const Scope& s, Positions kind, int max_positions, int d_model) : max_positions(max_positions) {
    check<ArgumentError>(max_positions > 0, "positional encoding: max_positions ", max_positions, " is not positive");
    if (kind == Positions::learned) {
      table = s.parameter("weight", {max_positions, d_model}, init_normal(0.02));
    } else if (kind != Positions::none) {
      std::vector<real> values;
      for (int n = 0; n < max_positions; ++n)
        for (int j = 0; j < d_model; ++j)
          values.push_back(static_cast<real>(value(kind, n, j, max_positions, d_model)));
      table = s.constant({max_positions, d_model}, values);
    }
  }

  static double value(Positions kind, int n, int column, int max_positions, int d_model) {
    if (kind == Positions::count) return n;
    if (kind == Positions::simple) return static_cast<double>(n) / max_positions;
    if (kind == Positions::binary) return column < 31 ? n >> column & 1 : 0;
    const double exponent = kind == Positions::floor_sinusoid ? 0 : static_cast<double>(column - column % 2) / d_model;
    const double angle = n / std::pow(10000.0, exponent);
    return (column % 2 == 0) == (kind != Positions::cosinusoid) ? std::sin(angle) : std::cos(angle);
  }

  // x + encoding, for any rows x [rows, d_model].
  Tensor operator()(const Tensor& x, Offsets rows) const {
    return table.defined() ? x + embedding(table, ids(rows)) : x;
  }

  // The position of each row, 0, 1, 2 ... within its sequence; lives on the tape. Throws IndexError past the table's
  // end.
  std::span<const int> ids(Offsets rows) const {
    int* const positions = tape().allocate<int>(static_cast<std::size_t>(rows.back()));
    for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
      check<IndexError>(rows[s + 1] - rows[s] <= max_positions, "positional encoding: sequence ", s, " has ",
                        rows[s + 1] - rows[s], " positions, the table ", max_positions);
      for (int row = rows[s]; row < rows[s + 1]; ++row) positions[row] = row - rows[s];
    }
    return {positions, static_cast<std::size_t>(rows.back())};
  }

  Tensor table;  // empty for Positions::none
  int max_positions;
};

}  // namespace seppo::inline SEPPO_ABI
