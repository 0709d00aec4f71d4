// Conversion to narrow formats and back, and leaves that have such values.
#include "compact_matrix.h"

#include "check.h"
#include "leaf.h"
#include "pages.h"
#include "parallel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The upper half of a finite float, rounded to the nearest, of two to the even one.
std::uint16_t upper_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Has such a half the bits of infinity?
bool is_infinite(std::uint16_t half) { return (half & 0x7f80) == 0x7f80; }

// Row i of a panel. What is beyond the end of `values` is zero.
void quantize(QuantizedPanel& panel, std::size_t i, std::span<const real> values) {
  constexpr float kMost = 127;
  constexpr float kRounding = 12582912;  // 1.5 2^23: what is added to it is rounded to an integer
  float largest = 0;
  for (const real v : values) largest = std::max(largest, std::abs(static_cast<float>(v)));
  const float scale = largest / kMost;
  panel.scale[i] = scale;
  for (std::size_t t = 0; t < CompactMatrix::kBlock; ++t) {
    const float value = t < values.size() && scale != 0 ? static_cast<float>(values[t]) / scale : 0;
    const float steps = (std::clamp(value, -kMost, kMost) + kRounding) - kRounding;
    panel.q[t / 4][i][t % 4] = static_cast<std::uint8_t>(static_cast<int>(steps) + QuantizedPanel::kZero);
  }
}

// Gives whole pages back; what is read from them is zero then.
void release(real* values, std::size_t count) {
  const auto page = std::uintptr_t{page_size()};
  const auto first = reinterpret_cast<std::uintptr_t>(values);
  const std::uintptr_t begin = (first + page - 1) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(values + count) / page * page;
  if (begin < end) release_pages(reinterpret_cast<std::byte*>(values) + (begin - first), end - begin);
}

}  // namespace

std::shared_ptr<std::byte> CompactMemory::take(std::size_t bytes) {
  check<ArgumentError>(bytes <= memory_->size() - taken_, "compact: ", bytes, " bytes are more than are left");
  std::byte* const begin = memory_->data() + taken_;
  taken_ += bytes;
  return {memory_, begin};
}

std::size_t CompactMatrix::bytes_of(WeightFormat format, std::size_t rows, std::size_t cols) {
  const std::size_t blocks = (cols + kBlock - 1) / kBlock;
  if (format == WeightFormat::bf16)
    return (rows + kPaddedRows - 1) / kPaddedRows * kPaddedRows * blocks * kBlock * sizeof(std::uint16_t);
  return (rows + QuantizedPanel::kRows - 1) / QuantizedPanel::kRows * blocks * sizeof(QuantizedPanel);
}

CompactMatrix::CompactMatrix(WeightFormat format, std::span<const real> values, std::size_t cols,
                             std::shared_ptr<std::byte> memory)
    : format_(format),
      rows_(cols == 0 ? 0 : values.size() / cols),
      cols_(cols),
      memory_(memory ? std::move(memory) : CompactMemory(bytes()).take(bytes())) {
  check<ArgumentError>(format != WeightFormat::full, "compact: full is the format of reals");
  constexpr std::size_t kRowsAtOnce = 4 * QuantizedPanel::kRows;
  parallel_for(0, rows_, kRowsAtOnce, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) store(i, &values[i * cols_]);
  });
  const std::size_t padded = (rows_ + QuantizedPanel::kRows - 1) / QuantizedPanel::kRows * QuantizedPanel::kRows;
  for (std::size_t i = rows_; format == WeightFormat::q8 && i < padded; ++i) store_quantized(i, {});
}

void CompactMatrix::store(std::size_t row, const real* from) {
  const auto fits = [&](real v) {
    const auto x = static_cast<float>(v);
    return std::isfinite(x) && (format_ == WeightFormat::q8 || !is_infinite(upper_half(x)));
  };
  check<NumericError>(std::all_of(from, from + cols_, fits), "compact: row ", row,
                      " has a number that is not finite, or too large");
  if (format_ == WeightFormat::q8) return store_quantized(row, {from, cols_});
  auto* const halves = reinterpret_cast<std::uint16_t*>(memory_.get()) + row * blocks() * kBlock;
  for (std::size_t j = 0; j < cols_; ++j) halves[j] = upper_half(static_cast<float>(from[j]));
}

void CompactMatrix::store_quantized(std::size_t row, std::span<const real> values) {
  auto* const panels = const_cast<QuantizedPanel*>(panels_of(row));
  for (std::size_t b = 0; b < blocks(); ++b) {
    const std::span<const real> rest = values.subspan(std::min(values.size(), b * kBlock));
    quantize(panels[b], row % QuantizedPanel::kRows, rest.first(std::min(rest.size(), kBlock)));
  }
}

void CompactMatrix::expand(std::size_t row, real* to) const {
  if (format_ == WeightFormat::bf16) {
    const std::uint16_t* const halves = bfloat16_row(row);
    for (std::size_t j = 0; j < cols_; ++j) to[j] = std::bit_cast<float>(std::uint32_t{halves[j]} << 16);
    return;
  }
  const std::size_t i = row % QuantizedPanel::kRows;
  for (std::size_t b = 0; b < blocks(); ++b) {
    const QuantizedPanel& panel = panels_of(row)[b];
    std::uint8_t q[kBlock];  // one after another, to be converted by vectors
    for (std::size_t t = 0; t < kBlock; t += 4) std::memcpy(q + t, panel.q[t / 4][i], 4);
    const std::size_t count = std::min(kBlock, cols_ - b * kBlock);
    for (std::size_t t = 0; t < count; ++t)
      to[b * kBlock + t] = panel.scale[i] * static_cast<float>(q[t] - QuantizedPanel::kZero);
  }
}

void make_compact(const Tensor& leaf, WeightFormat format, CompactMemory& memory) {
  Node& node = leaf.node();
  check<StateError>(!node.tape, "compact: ", leaf, " is no leaf");
  check(leaf.rank() == 2, "compact: ", leaf, " is not [rows, cols]");
  const std::size_t bytes = CompactMatrix::bytes_of(format, leaf.rows(), leaf.cols());
  auto matrix = std::make_unique<const CompactMatrix>(format, leaf.values(), leaf.cols(), memory.take(bytes));
  release(node.data, leaf.numel());
  node.data = nullptr;
  node.closure = matrix.release();
  mark_changed(node);
}

std::optional<CompactRows> rows_of_compact(const Tensor& x) {
  const Tensor leaf = leaf_of(x);
  const auto* const matrix = leaf.defined() ? static_cast<const CompactMatrix*>(leaf.node().closure) : nullptr;
  if (!matrix || x.rank() != 2 || x.cols() != matrix->cols()) return {};
  const auto offset = static_cast<std::size_t>(x.node().tape ? x.node().part->offset : 0);
  if (matrix->cols() == 0 || offset % matrix->cols() != 0) return {};  // of a view that begins within a row
  return CompactRows{matrix, offset / matrix->cols(), x.rows()};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
