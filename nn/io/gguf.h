// GGUF files, ggml's: named tensors, plain or quantised in blocks, behind a header of typed metadata.
//
// Format (ggml, docs/gguf.md, versions 2 and 3), little-endian: "GGUF", a uint32 version, uint64 numbers of tensors and
// of metadata; for each metadata a name, a uint32 type and the value; for each tensor a name, a uint32 number of sizes,
// these as uint64, the innermost first, a uint32 type and a uint64 offset; then, aligned to "general.alignment" or 32
// bytes, the tensors' bytes. A text is a uint64 size and its bytes; a list is a uint32 type, a uint64 size and its
// values.
//
// Of the types of tensors, F32, F16 and BF16 are read, and quantised ones, in which a block of 32 numbers has d and
// perhaps m, both F16: Q8_0, d q with q of 8 bits and a sign; Q4_0 and Q5_0, d (q - 8) and d (q - 16) with q of 4 and 5
// bits; Q4_1 and Q5_1, d q + m. Blocks of Q4_K and Q5_K are of 256 numbers, d s q - m t, where s and t are of 6 bits
// and of 32 numbers; those of Q6_K are d s (q - 32), where s is of 8 bits with a sign and of 16 numbers, and q of 6.
//
// The reader trusts nothing. Before allocating memory for any tensor it throws FormatError, naming the file, the place
// and the rule, for a file that is too short, sizes that overflow or do not fit, tensors that overlap, repeated names,
// and types that are unknown or not read. A header has at most 64 MiB, 65,536 tensors and metadata each, and 2^21
// values in its lists; these are not nested.
#pragma once

#include "file.h"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct GgufTensor {
  std::string name, type;           // "Q4_1"
  std::vector<std::int64_t> shape;  // the outermost size first: [rows, columns]
  std::uint64_t offset = 0;         // in the file
  std::uint64_t bytes = 0;

  std::size_t numel() const;
};

// The double whose shortest decimal form is that of the float: 1e-5.
double as_decimal(float x);

// Is this the text of a token at which generation ends, whatever the metadata say? Files name one or two such tokens;
// llama.cpp knows others, such as those that end an answer, by their texts.
bool gguf_ends_text(std::string_view token);

// Metadata and tensors: of a file that is read, or of one that is to be written (gguf_builder.h).
class GgufSource {
 public:
  virtual ~GgufSource() = default;

  const std::string& name() const { return name_; }  // for messages
  // An object: {"general.architecture": "llama", ...}. A float32 is the decimal number that it stands for, 1e-5.
  const nlohmann::json& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the file's order
  const GgufTensor* find(const std::string& tensor) const;             // null if there is none

  // Numbers of a tensor, in order, from `first` on, where a block begins; all of them unless `to` is shorter. Throws
  // FormatError if one is not finite; FileError.
  virtual void read(const GgufTensor& tensor, std::span<real> to, std::size_t first = 0) const = 0;

 protected:
  explicit GgufSource(std::string name) : name_(std::move(name)), metadata_(nlohmann::json::object()) {}

  // Of what is read of a tensor.
  void check_numbers(const GgufTensor& tensor, std::size_t first, std::size_t count) const;

  std::string name_;
  nlohmann::json metadata_;
  std::vector<GgufTensor> tensors_;
};

class GgufFile : public GgufSource {
 public:
  explicit GgufFile(const std::filesystem::path& path);  // reads the header

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  void read(const GgufTensor& tensor, std::span<real> to, std::size_t first = 0) const override;

 private:
  File file_;
  std::filesystem::path path_;
  std::uint64_t size_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
