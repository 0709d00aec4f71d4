// The weights of a model in Hugging Face's format: model.safetensors, or several files beside
// model.safetensors.index.json, {"weight_map": {"tensor": "file", ...}}, which says where each tensor is. If both
// exist, the single file is used.
//
//   load_weights(find_weights("llama"), parameters, llama_weights(32, 8));
#pragma once

#include "checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct WeightFiles {
  std::vector<std::filesystem::path> files = {};
  std::map<std::string, std::size_t> file_of = {};     // of each tensor
  std::filesystem::path index = {};                    // of several files, or empty
  std::uint64_t bytes = 0;                             // of all files
  std::map<std::string, std::uint64_t> bytes_of = {};  // of the tensors of each dtype

  bool has(const std::string& tensor) const { return file_of.contains(tensor); }
};

// Reads the index and the headers. The files must be beside the index, and each must contain exactly the tensors that
// the index lists. Throws ArgumentError if there is neither a file nor an index; FormatError naming the file, the
// tensor and the rule; FileError.
WeightFiles find_weights(const std::filesystem::path& folder);

// Calls load_weights() on one file after another, so that two models are never in memory at once, and returns the lines
// of all. The tensors of a stack may be in different files. That every parameter has its tensors is known before the
// first is loaded; if a file is refused for another reason, the parameters of those before it have changed.
std::vector<std::string> load_weights(const WeightFiles& weights, Parameters& parameters, const WeightOptions& options);

}  // namespace SEPPO_ABI
}  // namespace seppo
