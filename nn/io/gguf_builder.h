// GgufBuilder: metadata and tensors of a GGUF file (gguf.h) that is to be written, version 3, all tensors as F32.
//
//   GgufBuilder file;
//   file.add("general.architecture", "llama");
//   file.add_tensor("token_embd.weight", {rows, columns}, [&](std::span<float> to) { ... });
//   file.write("model.gguf");
#pragma once

#include "../../autograd/core/list.h"
#include "gguf.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class GgufBuilder : public GgufSource {
 public:
  GgufBuilder() : GgufSource("gguf") {}

  // All throw ArgumentError for a key that is there already.
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, List<std::string> values);
  void add(std::string_view key, List<std::int32_t> values);
  void add(std::string_view key, List<float> values);

  // `shape` has the outermost size first; `fill`, which writes the numbers, is called by write().
  void add_tensor(const std::string& name, List<std::int64_t> shape, std::function<void(std::span<float>)> fill);

  void read(const GgufTensor& tensor, std::span<real> to, std::size_t first = 0) const override;

  // Replaces the file whole or not at all, tensor after tensor. Throws FileError.
  void write(const std::filesystem::path& path) const;

 private:
  void begin(std::string_view key, std::uint32_t type);
  void begin_list(std::string_view key, std::uint32_t type, std::size_t size);

  std::string keys_;  // and their values, as they are written
  std::vector<std::function<void(std::span<float>)>> fills_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
