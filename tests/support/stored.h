// The content of a safetensors file in memory, to be modified and written again.
#pragma once

#include <seppo/nn/io/safetensors.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace test {

struct StoredTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

struct Stored {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;
};

inline Stored read_stored(const std::filesystem::path& path) {
  const seppo::SafeTensorsFile file(path);
  file.verify();
  Stored content{file.metadata(), {}};
  for (const seppo::TensorInfo& t : file.tensors()) {
    content.tensors.push_back({t.name, t.dtype, t.shape, std::vector<std::byte>(t.bytes())});
    file.read(t, content.tensors.back().bytes);
  }
  return content;
}

inline void write_stored(const std::filesystem::path& path, const Stored& content) {
  std::vector<seppo::TensorView> views;
  for (const StoredTensor& t : content.tensors) views.push_back({t.name, t.dtype, t.shape, t.bytes});
  seppo::write_safetensors(path, content.metadata, views);
}

}  // namespace test
