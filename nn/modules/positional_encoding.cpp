// PositionalEncoding: tables of sinusoids, computed as they are needed, and the choice among the kinds.
#include "positional_encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

std::span<const real> alibi_slopes(const Scope& s, int n_heads) {
  const Tensor slopes = s.constant({n_heads}, [=](std::span<real> values, const Shape&, RandomStream&) {
    for (int head = 0; head < n_heads; ++head)
      values[static_cast<std::size_t>(head)] = static_cast<real>(alibi_slope(head, n_heads));
  });
  return slopes.values();
}

// Of all pairs that columns, which may be an odd number, are of.
std::vector<double> wavelengths(int columns, double base) {
  std::vector<double> of_pairs;
  for (int even = 0; even <= columns; even += 2)
    of_pairs.push_back(std::pow(base, static_cast<double>(even) / columns));
  return of_pairs;
}

// Of the pairs of columns of a head that are rotated.
RotaryAngles angles_of(const PositionalEncodingOptions& options, int width) {
  const int head = options.head_width > 0 ? options.head_width : width;
  check<ArgumentError>(options.share > 0 && options.share <= 1, "positional encoding: the share ", options.share,
                       " of columns that are rotated is not in 0..1");
  const int turned = rotated_columns(options.share, head);
  check<ArgumentError>(turned > 0 && turned <= head && turned % 2 == 0,
                       "positional encoding: rotary positions turn pairs of columns, but heads have ", turned);
  return rotary_angles(turned, options.theta, options.scaling);
}

}  // namespace

int rotated_columns(double share, int head_width) { return static_cast<int>(share * head_width); }

double sinusoid(int position, int column, int d_model, double base) {
  const int even = column / 2 * 2;
  const double angle = position / std::pow(base, static_cast<double>(even) / d_model);
  return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

double alibi_slope(int head, int n_heads) {
  const int n = static_cast<int>(std::bit_floor(static_cast<unsigned>(n_heads)));
  if (head < n) return std::exp2(-8.0 * (head + 1) / n);
  return std::exp2(-8.0 * (2 * (head - n) + 1) / (2 * n));
}

SinusoidTable::SinusoidTable(const Scope& s, int rows, int columns, EvenColumns even, const RotaryAngles& angles)
    : table_(s.constant({rows, columns}, [](std::span<real>, const Shape&, RandomStream&) {})),
      even_(even),
      angles_(angles),
      computed_(std::make_shared<Computed>()) {}

SinusoidTable::SinusoidTable(const Scope& s, int rows, int columns, EvenColumns even, double base)
    : SinusoidTable(s, rows, columns, even, RotaryAngles{wavelengths(columns, base)}) {}

SinusoidTable::SinusoidTable(const Scope& s, int rows, const RotaryAngles& angles)
    : SinusoidTable(s, rows, 2 * static_cast<int>(angles.wavelengths.size()), EvenColumns::cosines, angles) {}

void SinusoidTable::compute_up_to(int rows) const {
  const std::lock_guard lock(computed_->mutex);
  const int columns = table_.size(1);
  const int end = std::min(rows, table_.size(0));
  for (int& n = computed_->rows; n < end; ++n) {
    real* const row = table_.data() + std::ptrdiff_t{n} * columns;
    for (int j = 0; j < columns; ++j) {
      const int column = even_ == EvenColumns::sines ? j : j ^ 1;  // neighbours exchanged
      const double angle = n / angles_.wavelengths[static_cast<std::size_t>(column / 2)];
      row[j] = static_cast<real>(angles_.length * (column % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  }
}

PositionalEncoding::PositionalEncoding(const Scope& s, Positions kind, int length, int d_model,
                                       const PositionalEncodingOptions& options)
    : max_positions(length) {
  using Even = SinusoidTable::EvenColumns;
  constexpr double kBase = 10000;
  const int n_heads = options.n_heads;
  const int width = n_heads > 0 ? d_model / n_heads : 0;  // of a head
  const bool has_heads = width * n_heads == d_model || options.head_width > 0;
  check<ArgumentError>(length > 0 && has_heads && options.theta > 0, "positional encoding: max_positions ", length,
                       " or theta ", options.theta, " is not positive, or n_heads ", n_heads,
                       " does not divide d_model ", d_model);
  switch (kind) {
    case Positions::none:
      break;
    case Positions::sinusoid:
      sinusoids.emplace(s, length, d_model, Even::sines, kBase);
      table = sinusoids->tensor();
      break;
    case Positions::cosinusoid:
      sinusoids.emplace(s, length, d_model, Even::cosines, kBase);
      table = sinusoids->tensor();
      break;
    case Positions::learned:
      table = s.parameter("weight", {length, d_model}, init_normal(0.02));
      break;
    case Positions::rotary:
    case Positions::rotary_halves:
      sinusoids.emplace(s, length, angles_of(options, width));
      relative.rotary = sinusoids->tensor();
      relative.pairs = kind == Positions::rotary ? RotaryPairs::interleaved : RotaryPairs::halves;
      break;
    case Positions::alibi:
      relative.slopes = alibi_slopes(s, n_heads);
      break;
  }
}

PositionalEncoding::PositionalEncoding(const Tensor& any) : table(any), max_positions(any.size(0)) {}

Tensor PositionalEncoding::operator()(const Tensor& x, Offsets offsets) const {
  if (!table.defined()) return x;
  return x + embedding(table, ids(offsets));
}

std::span<const int> PositionalEncoding::ids(Offsets offsets, std::span<const int> first) const {
  check(!offsets.empty() && offsets[0] == 0 && std::ranges::is_sorted(offsets), "positions: offsets must rise from 0");
  const auto rows = static_cast<std::size_t>(offsets.back());
  int* const positions = tape().allocate<int>(rows);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const int begin = first.empty() ? 0 : first[s];
    const int end = begin + offsets[s + 1] - offsets[s];
    check<IndexError>(end <= max_positions, "positional encoding: sequence ", s, " has ", end, " positions, the table ",
                      max_positions);
    for (int n = begin; n < end; ++n) positions[offsets[s] + n - begin] = n;
    if (sinusoids) sinusoids->compute_up_to(end);
  }
  return {positions, rows};
}

AttentionPositions PositionalEncoding::for_attention(std::span<const int> position_ids) const {
  if (sinusoids && relative.rotary.defined() && !position_ids.empty())
    sinusoids->compute_up_to(std::ranges::max(position_ids) + 1);
  AttentionPositions positions = relative;
  positions.ids = position_ids;
  return positions;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
