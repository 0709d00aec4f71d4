// CompactMatrix: a weight in less memory than reals take, for decoding, which reads all weights for each token.
//
//   const CompactMatrix weight(WeightFormat::q8, values, /*cols=*/768);
//   weight.expand(0, row);  // row 0, as reals
//
// compact_weights() (nn/compact_weights.h) keeps a model's weights so.
#pragma once

#include "memory.h"
#include "real.h"
#include "tensor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// How weights are kept in memory.
enum class WeightFormat : std::uint8_t {
  full,  // as reals
  bf16,  // as bfloat16 numbers, the upper halves of floats: exact for weights that come from files of these
  q8     // as 8-bit integers, 32 of a row with a scale of their own: 36 bytes, where floats take 128
};
inline std::span<const char* const> enum_names(WeightFormat) {
  static constexpr const char* kNames[] = {"full", "bf16", "q8"};
  return kNames;
}

// A block of 32 columns of 16 rows: the number in column t of row i is scale[i] * (q[t / 4][i][t % 4] - 128), and the
// largest of a row's is 127 steps from zero. Products are sums of fours in each of 16 lanes.
struct QuantizedPanel {
  static constexpr std::size_t kRows = 16, kQuads = 8;
  static constexpr int kZero = 128;
  float scale[kRows];
  std::uint8_t q[kQuads][kRows][4];
};

// Memory that matrices take one after another. One block for all weights of a model consists of huge pages, where most
// matrices are too small for one of their own: without, decoding waits for the TLB. It lives as long as its matrices.
class CompactMemory {
 public:
  explicit CompactMemory(std::size_t bytes) : memory_(std::make_shared<Memory>(bytes, /*huge=*/true)) {}
  // The next so many bytes. Throws ArgumentError beyond the end.
  std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  std::shared_ptr<Memory> memory_;
  std::size_t taken_ = 0;
};

class CompactMatrix {
 public:
  static constexpr std::size_t kBlock = 32;       // columns; rows are padded with zeros to whole blocks
  static constexpr std::size_t kPaddedRows = 32;  // bf16 matrices are padded with rows of zeros to a multiple
  static std::size_t bytes_of(WeightFormat format, std::size_t rows, std::size_t cols);

  // The matrix of `values`, row-major, each rounded to the nearest number of the format. Throws ArgumentError for
  // WeightFormat::full, NumericError if a value is not finite. `memory` has its bytes_of(), or
  // is null.
  CompactMatrix(WeightFormat format, std::span<const real> values, std::size_t cols,
                std::shared_ptr<std::byte> memory = {});

  WeightFormat format() const { return format_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t blocks() const { return (cols_ + kBlock - 1) / kBlock; }  // of a row
  std::size_t bytes() const { return bytes_of(format_, rows_, cols_); }

  // A row as bf16 stores it: blocks() * kBlock bfloat16 numbers.
  const std::uint16_t* bfloat16_row(std::size_t i) const {
    return reinterpret_cast<const std::uint16_t*>(memory_.get()) + i * blocks() * kBlock;
  }
  // The blocks() panels in which q8 stores a row and those beside it. Panels are padded with rows of zeros.
  const QuantizedPanel* panels_of(std::size_t row) const {
    return reinterpret_cast<const QuantizedPanel*>(memory_.get()) + row / QuantizedPanel::kRows * blocks();
  }
  void expand(std::size_t row, real* to) const;

 private:
  void store(std::size_t row, const real* from);
  void store_quantized(std::size_t row, std::span<const real> values);

  WeightFormat format_;
  std::size_t rows_, cols_;
  std::shared_ptr<std::byte> memory_;
};

// Some rows of one.
struct CompactRows {
  const CompactMatrix* matrix;
  std::size_t first, count;

  CompactRows rows(std::size_t begin, std::size_t n) const { return {matrix, first + begin, n}; }
};

// Replaces the values of a leaf [rows, cols], whose memory is given back as far as it consists of whole pages. Throws
// as CompactMatrix does, and then leaves it as it was.
void make_compact(const Tensor& leaf, WeightFormat format, CompactMemory& memory);

// Of a leaf that is compact, or a view of some of its rows; else none.
std::optional<CompactRows> rows_of_compact(const Tensor& x);
inline std::optional<CompactRows> compact_rows(const Tensor& x) {
  return x.node().data ? std::nullopt : rows_of_compact(x);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
