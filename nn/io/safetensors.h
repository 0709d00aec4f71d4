// Safetensors files: named tensors that PyTorch and every other tool of the field can read.
//
// Format (huggingface/safetensors, README): 8 bytes little-endian header length N; N bytes of JSON,
// {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {string: string}};
// then the tensors' bytes, row-major, which cover the rest of the file without gap or overlap.
//
// What seppo writes has two more entries in its metadata, which others ignore: "seppo.format", 2, and "seppo.digest",
// 32 digits for the header, with 32 zeros in their own place, and 32 for each tensor, in the order of their bytes (all
// as in digest.h). A bit that changes on the disk is then noticed, and its tensor named. Format 1, of earlier files,
// has one digest of the whole file.
//
// The reader trusts nothing. Before allocating memory for any tensor it throws FormatError, naming the file, the place
// and the rule, for a wrong length, missing or trailing bytes, unknown or repeated fields and names, integers that are
// not plain, sizes that overflow or do not fill bytes, and unknown dtypes. Time and memory are proportional to the
// header, which has at most 16 MiB, 65,536 tensors and as many metadata entries. FileError means that the file cannot
// be read or written at all.
#pragma once

#include "../../autograd/core/function_ref.h"
#include "atomic_file.h"
#include "digest.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct TensorInfo {
  std::string name, dtype;  // "F32"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // its bytes, counted from the first tensor's

  std::uint64_t bytes() const { return end - begin; }
};

class SafeTensorsFile {
 public:
  SafeTensorsFile(const std::filesystem::path& path);  // reads the header

  const std::string& name() const { return name_; }  // of the file, for messages
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the file's order
  std::uint64_t size() const { return size_; }                         // bytes of the whole file

  // The digest that the file claims to have, of everything in it; none in files of other programs.
  const std::optional<std::string>& digest() const { return digest_; }
  // Reads the whole file. Throws FormatError, naming the damaged tensors, if it is not what was written. Does nothing
  // for a file without a digest.
  void verify() const;
  // The same as a list: "the header", "tensor NAME"; of a file of format 1, that it is damaged somewhere. Empty if
  // nothing is damaged.
  std::vector<std::string> damage() const;
  void read(const TensorInfo& tensor, std::span<std::byte> to) const;
  // Only some of its bytes, from `begin` on.
  void read(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> to) const;

 private:
  void read_header();
  void check_layout() const;
  void take_digests();
  void add_to(Digest& digest, const TensorInfo& tensor) const;

  File file_;
  std::string name_;
  std::string header_;  // the digest's place filled with zeros
  std::uint64_t size_;
  std::map<std::string, std::string> metadata_;
  std::vector<TensorInfo> tensors_;
  std::optional<std::string> digest_;
  bool names_damage_ = false;  // each tensor has a digest
};

// Numbers of the dtypes F16 (IEEE 754 binary16) and BF16 (the upper half of a float). nearest() rounds to the nearest
// one, of two to the even one, and a number that is too large to infinity.
struct Half {
  std::uint16_t bits;
  static Half nearest(float x);
  operator float() const;
};
struct BFloat {
  std::uint16_t bits;
  static BFloat nearest(float x);
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

// A tensor to write.
struct TensorView {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Whatever happens, `path` holds the complete old file or the complete new one (atomic_file.h). Throws ArgumentError
// for what the reader would refuse, such as repeated names or invalid UTF-8.
void write_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                       std::span<const TensorView> tensors);

// The same, of tensors that need not be in memory together: bytes_of(i) is asked once for each, in order, and what it
// returns must last until the next call. `begin` and `end` of the tensors are set here; their shapes say how many bytes
// are due. What bytes_of throws leaves the old file.
void write_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                       std::vector<TensorInfo> tensors,
                       FunctionRef<std::span<const std::byte>(std::size_t i)> bytes_of);

}  // namespace SEPPO_ABI
}  // namespace seppo
