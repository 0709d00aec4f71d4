// PositionalEncoding: how a Transformer is told the order of its tokens.
//
//   const PositionalEncoding positions(parameters.root(), Positions::sinusoid, /*max_positions=*/16, /*d_model=*/8);
//   const Tensor y = positions(x, {0, 3, 5});  // of five rows, those at positions 0, 1 and 2, and 0 and 1
//
// The absolute encodings are a table [max_positions, d_model] whose row n is added at position n of a sequence; the
// relative ones (rotary, rotary_halves, alibi) act within attention, as for_attention() tells it.
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"
#include "rotary_angles.h"

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

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

// An element of the sinusoid table, whose even columns are sines.
double sinusoid(int position, int column, int d_model, double base = 10000);

// ALiBi's slope of each head: 2^(-8/n), 2^(-16/n), ... 2^-8 for n heads, if n is a power of two. Otherwise the slopes
// of the next lower power of two, followed by the first, third, fifth ... slope of twice that power.
double alibi_slope(int head, int n_heads);

// A table of sinusoids [rows, columns] that is computed from the top, as far as positions are used: the rows below are
// uninitialised, and take neither time nor memory. Copies share the table.
class SinusoidTable {
 public:
  enum class EvenColumns { sines, cosines };

  SinusoidTable(const Scope& s, int rows, int columns, EvenColumns even, double base);
  // Of columns 2i and 2i + 1 with the angle of pair i; the even columns are cosines.
  SinusoidTable(const Scope& s, int rows, const RotaryAngles& angles);

  // Concurrent calls are allowed.
  void compute_up_to(int rows) const;
  const Tensor& tensor() const { return table_; }

 private:
  struct Computed {
    std::mutex mutex;
    int rows = 0;
  };

  SinusoidTable(const Scope& s, int rows, int columns, EvenColumns even, const RotaryAngles& angles);

  Tensor table_;
  EvenColumns even_;
  RotaryAngles angles_;
  std::shared_ptr<Computed> computed_;
};

// What attention needs to know about positions; by default nothing.
struct AttentionPositions {
  std::span<const int> ids = {};  // of each row
  Tensor rotary = {};             // the op's table, [max_positions, columns of a head that are turned]
  RotaryPairs pairs = RotaryPairs::interleaved;
  std::span<const real> slopes = {};  // of ALiBi, for each head
};

struct PositionalEncodingOptions {
  int n_heads = 1;       // of the attention, for the relative ones
  double theta = 10000;  // rotary: pair i of a head is rotated by theta^(-2i / width) per position
  int head_width = 0;    // 0: d_model / n_heads
  double share = 1;      // of a head's columns, from the first: those that are rotated
  RotaryScaling scaling = {};
};

// The columns of a head that are turned, of this share: without a fraction, as Hugging Face's models count them.
int rotated_columns(double share, int head_width);

struct PositionalEncoding {
  PositionalEncoding(const Scope& s, Positions kind, int max_positions, int d_model,
                     const PositionalEncodingOptions& options = {});
  // Any other table [max_positions, d_model], as Scope::constant or Scope::parameter makes one.
  explicit PositionalEncoding(const Tensor& any);

  // x + encoding, for x [rows, d_model] with sequences at the offsets; x itself for relative encodings.
  Tensor operator()(const Tensor& x, Offsets offsets) const;

  // The position of each row within its sequence, on the tape: 0, 1, 2 ..., or first[s], first[s] + 1 ... if given.
  // Throws IndexError past the table's end.
  std::span<const int> ids(Offsets offsets, std::span<const int> first = {}) const;

  // For attention over rows of these positions.
  AttentionPositions for_attention(std::span<const int> position_ids) const;

  Tensor table;                            // undefined for Positions::none and the relative ones
  AttentionPositions relative;             // without ids
  std::optional<SinusoidTable> sinusoids;  // of `table`, or of relative.rotary; ids() and for_attention() compute it
  int max_positions;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
