// PositionalEncoding: how a Transformer is told the order of its tokens.
//
// The absolute encodings are a table [max_positions, d_model] whose row n is added at position n of a sequence; the
// relative ones (rotary, rotary_halves, alibi) act within attention, as for_attention() tells it.
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>

namespace seppo {
inline namespace SEPPO_ABI {

enum class Positions {
  none,
  sinusoid,    // sin(n / 10000^(2i/d)) in column 2i, cos of the same angle in column 2i + 1 (Vaswani et al. 2017, 3.5)
  cosinusoid,  // the same with cos in column 2i and sin in column 2i + 1
  learned,     // a parameter, N(0, 0.02^2)
  rotary,      // queries and keys are rotated, in pairs of columns 2i and 2i + 1 (Su et al. 2021; llama2.c)
  rotary_halves,  // the same with columns i and i + width / 2 of a head (Hugging Face's LLaMA)
  alibi           // scores lowered in proportion to the distance (Press et al. 2021)
};

inline std::span<const char* const> enum_names(Positions) {
  static constexpr const char* kNames[] = {"none",   "sinusoid",      "cosinusoid", "learned",
                                           "rotary", "rotary_halves", "alibi"};
  return kNames;
}

// An element of the sinusoid table. The cosinusoid swaps columns 2i and 2i + 1: it has column ^ 1 here.
inline double sinusoid(int position, int column, int d_model, double base = 10000) {
  const double angle = position / std::pow(base, static_cast<double>(column / 2 * 2) / d_model);
  return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

// ALiBi's slope of each head: 2^(-8/n), 2^(-16/n), ... 2^-8 for n heads, if n is a power of two. Otherwise the slopes
// of the next lower power of two, followed by the first, third, fifth ... slope of twice that power.
inline double alibi_slope(int head, int n_heads) {
  const int n = static_cast<int>(std::bit_floor(static_cast<unsigned>(n_heads)));
  return std::exp2(head < n ? -8.0 * (head + 1) / n : -8.0 * (2 * (head - n) + 1) / (2 * n));
}

// What attention needs to know about positions; by default nothing.
struct AttentionPositions {
  std::span<const int> ids = {};  // of each row
  Tensor rotary = {};             // the op's table, [max_positions, width of a head]
  RotaryPairs pairs = RotaryPairs::interleaved;
  std::span<const real> slopes = {};  // of ALiBi, for each head
  Tensor bias = {};  // added to the scores, see AttentionOptions; with a cache, [.., new queries, positions so far]
};

struct PositionalEncodingOptions {
  int n_heads = 1;       // of the attention, for the relative ones
  double theta = 10000;  // rotary: pair i of a head is rotated by theta^(-2i / width) per position
};

struct PositionalEncoding {
  PositionalEncoding(const Scope& s, Positions kind, int length, int d_model,
                     const PositionalEncodingOptions& options = {})
      : max_positions(length) {
    const int heads = options.n_heads, width = heads > 0 ? d_model / heads : 0;
    check<ArgumentError>(max_positions > 0 && width * heads == d_model && options.theta > 0,
                         "positional encoding: max_positions ", max_positions, " or theta ", options.theta,
                         " is not positive, or n_heads ", heads, " does not divide d_model ", d_model);
    const auto waves = [&](int columns, int change, double base) {
      const Tensor rows = s.constant({length, columns}, [](std::span<real>, const Shape&, RandomStream&) {});
      need = [=, done = std::make_shared<std::pair<std::mutex, int>>()](int end) {
        const std::lock_guard lock(done->first);
        for (int& n = done->second; n < std::min(end, length); ++n)
          for (int j = 0; j < columns; ++j)
            rows.data()[std::ptrdiff_t{n} * columns + j] = static_cast<real>(sinusoid(n, j ^ change, columns, base));
      };
      return rows;
    };
    if (kind == Positions::learned) table = s.parameter("weight", {max_positions, d_model}, init_normal(0.02));
    if (kind == Positions::sinusoid || kind == Positions::cosinusoid)
      table = waves(d_model, kind == Positions::cosinusoid, 10000);
    if (kind == Positions::rotary || kind == Positions::rotary_halves) {
      check<ArgumentError>(width % 2 == 0,
                           "positional encoding: rotary positions turn pairs of columns, but heads have ", width);
      relative.rotary = waves(width, 1, options.theta);
      relative.pairs = kind == Positions::rotary ? RotaryPairs::interleaved : RotaryPairs::halves;
    }
    if (kind == Positions::alibi) {
      const Tensor slopes = s.constant({heads}, init_zeros());
      for (int h = 0; h < heads; ++h) slopes.data()[h] = static_cast<real>(alibi_slope(h, heads));
      relative.slopes = slopes.values();
    }
  }
  // Any other table [max_positions, d_model], as Scope::constant or Scope::parameter makes one.
  explicit PositionalEncoding(const Tensor& any) : table(any), max_positions(any.size(0)) {}

  // x + encoding, for x [rows, d_model] with the sequences at `rows`; x itself for relative encodings.
  Tensor operator()(const Tensor& x, Offsets rows) const {
    return table.defined() ? x + embedding(table, ids(rows)) : x;
  }

  // The position of each row within its sequence, on the tape: 0, 1, 2 ..., or first[s], first[s] + 1 ... if given.
  // Throws IndexError past the table's end.
  std::span<const int> ids(Offsets rows, std::span<const int> first = {}) const {
    check(!rows.empty() && rows[0] == 0 && std::ranges::is_sorted(rows), "positions: offsets must rise from 0");
    int* const positions = tape().allocate<int>(static_cast<std::size_t>(rows.back()));
    for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
      const int begin = first.empty() ? 0 : first[s], end = begin + rows[s + 1] - rows[s];
      check<IndexError>(end <= max_positions, "positional encoding: sequence ", s, " has ", end,
                        " positions, the table ", max_positions);
      for (int n = begin; n < end; ++n) positions[rows[s] + n - begin] = n;
      if (need) need(end);
    }
    return {positions, static_cast<std::size_t>(rows.back())};
  }

  // For attention over rows of these positions.
  AttentionPositions for_attention(std::span<const int> position_ids) const {
    if (relative.rotary.defined() && !position_ids.empty()) need(std::ranges::max(position_ids) + 1);
    AttentionPositions p = relative;
    p.ids = position_ids;
    return p;
  }

  Tensor table;                 // undefined for Positions::none and the relative ones
  AttentionPositions relative;  // without ids
  int max_positions;
  // Computes the first rows of a table of sinusoids, when ids() and for_attention() first need them; rows that have
  // not been needed are uninitialised, and take neither time nor memory.
  std::function<void(int rows)> need;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
