// The weights of a model as Hugging Face keeps them: model.safetensors, or several files beside
// model.safetensors.index.json, {"weight_map": {"tensor": "file", ...}}, which says where each tensor is. Where both
// are there, the single file counts.
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

// Reads the index and the headers. Files lie beside the index, and each has the tensors that the index says, no others.
// Throws examples::UsageError if there is neither a file nor an index; seppo::FormatError naming file, tensor and rule;
// seppo::FileError.
WeightFiles find_weights(const std::filesystem::path& folder);

// seppo::load_weights() from one file after another, so that two models are never in memory. A stack's tensors may lie
// in different files.
void load_weights(const WeightFiles& weights, seppo::Parameters& parameters, const seppo::WeightOptions& options);

}  // namespace llm
