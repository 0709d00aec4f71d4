// Writes model folders (folder.h), whole or not at all.
#pragma once

#include "llm/hf_config.h"

#include <filesystem>

namespace llm {

// Has the folder a model, or parts of one?
bool has_model(const std::filesystem::path& folder);

// Writes config.json, model.safetensors and the files of the tokenizer in the folder `tokenizer`, or those of
// byte_tokenizer() if it is empty (tokenizer_folder.h). All is written to FOLDER.partial, which then changes its name,
// so that the folder has the complete old model or the complete new one, even if the process is killed; an earlier
// FOLDER.partial is removed. Files that do not belong to a model are kept. Throws examples::UsageError if the folder
// cannot be made or written, seppo::NumericError if a parameter is not finite, seppo::FileError.
void write_folder(const std::filesystem::path& folder, const HfConfig& config, const seppo::Parameters& parameters,
                  const std::filesystem::path& tokenizer);

}  // namespace llm
