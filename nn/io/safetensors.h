// Safetensors files: named tensors that PyTorch and every other tool of the field can read.
//
// Format (huggingface/safetensors, README): 8 bytes little-endian header length N; N bytes of JSON,
// {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {string: string}};
// then the tensors' bytes, row-major, which cover the rest of the file without gap or overlap.
//
// The reader takes nothing on trust. It refuses with FormatError, naming the file, the tensor and the
// rule: a wrong length, missing or trailing bytes, unknown or repeated fields and names, integers that
// are not plain, sizes that overflow, dtypes other than F32 and F64. FileError means that the file cannot
// be read or written at all.
#pragma once

#include "../../autograd/core/real.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace seppo::inline SEPPO_ABI {

struct StoredTensor {
  std::string name;
  std::string dtype;  // "F32" or "F64"
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

struct SafeTensors {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;
};

SafeTensors read_safetensors(const std::filesystem::path& path);

// Whatever happens, `path` holds the old file or the new one, whole (atomic_file.h).
void write_safetensors(const std::filesystem::path& path, const SafeTensors& content);

}  // namespace seppo::inline SEPPO_ABI
