// A folder with a model in Hugging Face's format: config.json, the weights (weight_files.h) and the files of its
// tokenizer: tokenizer.json; vocab.json and merges.txt; or llama2.c's tok*.bin. A folder that `llm train` or `llm
// finetune` wrote contains such a folder, hf/.
#pragma once

#include "llm/hf_config.h"

#include "llm/tokenizer.h"

#include <filesystem>
#include <memory>

namespace llm {

struct Folder {
  std::filesystem::path path;  // where config.json is
  HfConfig config;
  Tokenizer tokenizer;  // has as many tokens as the model
  std::unique_ptr<seppo::Parameters> parameters;
  seppo::LanguageModel model;

  // The tokens of a text, after the BOS token if the model expects one.
  std::vector<int> encode(std::string_view text) const;
};

// Throws examples::UsageError if there is no such model, or if there is not exactly one tokenizer; seppo::FormatError
// naming the file and the rule; seppo::FileError. More parameters than the files can hold are refused before memory is
// allocated.
Folder open_folder(const std::filesystem::path& folder, std::uint64_t seed = 0);

// `option` names the folder in errors.
Tokenizer read_tokenizer(const std::string& option, const std::filesystem::path& folder);
// One token for each of the 256 bytes, and one for the end of a text: GPT-2's tokenizer without merges, for byte-level
// models.
Tokenizer byte_tokenizer();

// Writes config.json, model.safetensors and a copy of `tokenizer`'s files, or those of byte_tokenizer() without one;
// those of another tokenizer are removed, unless the folder is `tokenizer` itself.
// config.json is never there without the weights that it describes.
void write_folder(const std::filesystem::path& folder, const HfConfig& config, const seppo::Parameters& parameters,
                  const std::filesystem::path& tokenizer);

}  // namespace llm
