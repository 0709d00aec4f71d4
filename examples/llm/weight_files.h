// The weights of a model in Hugging Face's format: model.safetensors, or several files beside
// model.safetensors.index.json, {"weight_map": {"tensor": "file", ...}}, which says where each tensor is. If both
// exist, the single file is used.
#pragma once

#include <seppo/nn/io/checkpoint.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace llm {

struct WeightFiles {
  std::vector<std::filesystem::path> files = {};
  std::map<std::string, std::size_t> file_of = {};  // of each tensor
  std::filesystem::path index = {};                 // of several files, or empty
  std::uint64_t bytes = 0;                          // of all files

  bool has(const std::string& tensor) const { return file_of.contains(tensor); }
};

// Reads the index and the headers. The files must be beside the index, and each must contain exactly the tensors that
// the index lists. Throws examples::UsageError if there is neither a file nor an index; seppo::FormatError naming the
// file, the tensor and the rule; seppo::FileError.
WeightFiles find_weights(const std::filesystem::path& folder);

// Does a file have an output layer that is not the embedding? A copy of the embedding may be there as well.
bool has_other_output(const WeightFiles& weights, const std::string& embedding);

// Calls seppo::load_weights() on one file after another, so that two models are never in memory at once. The tensors of
// a stack may be in different files.
void load_weights(const WeightFiles& weights, seppo::Parameters& parameters, const seppo::WeightOptions& options);

}  // namespace llm
