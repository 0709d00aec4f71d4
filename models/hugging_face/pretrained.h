// A folder with a language model in Hugging Face's format: config.json, generation_config.json and the weights.
//
//   const Pretrained gpt2 = load_pretrained("gpt2");
//   const Tensor logits = gpt2.model(tokens);  // [rows, vocabulary]
//
// The tokenizer in the folder is read by nn/text/tokenizer_folder.h, which belongs to the component seppo::text.
#pragma once

#include "../../nn/io/sharded_weights.h"
#include "../../nn/parameters.h"
#include "../language_model.h"
#include "generation_config.h"
#include "hf_config.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// What a folder says about its model, before any weight is read.
struct ModelFolder {
  std::filesystem::path path;  // where config.json is
  HfConfig config;
  WeightFiles weights;
  WeightOptions names;  // of the parameters in these files
  GenerationConfig generation = {};
  WeightType type = WeightType::own;  // float16 or bfloat16 if that is what most of the weights are
};

// Reads the configs and the headers of the weights, from FOLDER/hf if a training has written a model there. Throws
// ArgumentError if there is no such model, FormatError naming the file and the rule, FileError. The tokens that end a
// text are those of generation_config.json, if it names any. A file that has an output layer of its own is believed,
// even if config.json says that it is the embedding.
ModelFolder open_model_folder(const std::filesystem::path& folder);

struct Pretrained {
  std::filesystem::path path;
  HfConfig config;
  std::unique_ptr<Parameters> parameters;
  LanguageModel model;
  GenerationConfig generation = {};
  WeightType type = WeightType::own;  // of the weights in the files; the parameters are reals
};

// Throws FormatError naming the file and the rule; FileError. More parameters than the files can hold are refused
// before memory is allocated.
Pretrained load_pretrained(const ModelFolder& folder, std::uint64_t seed = 0);
// The same of open_model_folder(folder), and what that throws.
Pretrained load_pretrained(const std::filesystem::path& folder, std::uint64_t seed = 0);

// Writes config.json, model.safetensors and, if missing, generation_config.json into a folder that exists. Parameters
// of adapters (models/lora.h) are left out; with `values` of Adapters::merged(), they are added to the weights. Throws
// NumericError if a parameter is not finite or too large for the type, FileError.
void save_pretrained(const std::filesystem::path& folder, const HfConfig& config, const Parameters& parameters,
                     const ValuesOf& values = nullptr, WeightType type = WeightType::own);

// Is this the name of a file that save_pretrained() or Hugging Face's libraries write for a model?
bool is_model_file(const std::string& name);
// Has the folder a model, or parts of one?
bool has_model(const std::filesystem::path& folder);

}  // namespace SEPPO_ABI
}  // namespace seppo
