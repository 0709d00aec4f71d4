// A folder with a model in Hugging Face's format: config.json, generation_config.json, the weights (weight_files.h) and
// the files of its tokenizer (tokenizer_folder.h). A folder that `llm train` or `llm finetune` wrote contains such a
// folder, hf/.
#pragma once

#include "llm/hf_config.h"
#include "llm/tokenizer_folder.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace llm {

// Whether a text begins with the BOS token: as the tokenizer says, or with the model's in any case, or in none.
enum class Bos { tokenizer, always, never };
inline std::span<const char* const> enum_names(Bos) {
  static constexpr const char* kNames[] = {"tokenizer", "always", "never"};
  return kNames;
}
inline constexpr const char* kBosHelp = "whether a text begins with the model's token for that; an empty prompt does";

struct Folder {
  std::filesystem::path path;  // where config.json is
  HfConfig config;
  Tokenizer tokenizer;  // has as many tokens as the model
  std::unique_ptr<seppo::Parameters> parameters;
  seppo::LanguageModel model;

  std::vector<int> encode(std::string_view text, Bos bos = Bos::tokenizer) const;
};

// The tokens of a text. Where the tokenizer decides, a text that has none is begun by the model's BOS token, if any.
// Throws examples::UsageError if a BOS token is demanded of a model that has none.
std::vector<int> encode(const Tokenizer& tokenizer, std::optional<int> model_bos, std::string_view text, Bos bos);

// Throws examples::UsageError if there is no such model, or if there is not exactly one tokenizer; seppo::FormatError
// naming the file and the rule; seppo::FileError. More parameters than the files can hold are refused before memory is
// allocated. The tokens that end a text are those of generation_config.json, if it names any. A file that has an output
// layer of its own is believed, even if config.json says that it is the embedding.
Folder open_folder(const std::filesystem::path& folder, std::uint64_t seed = 0);

// Throws examples::UsageError if `out`, the folder of an option, is that of the model that is read, or if one of them
// has the other as hf/.
void check_apart(const std::string& option, const std::filesystem::path& out, const std::filesystem::path& model);

}  // namespace llm
