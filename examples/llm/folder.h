// A model and its tokenizer, from one folder: what --model names, and what a training writes.
#pragma once

#include <seppo/models/hugging_face/pretrained.h>
#include <seppo/nn/io/gguf.h>
#include <seppo/nn/text/bos.h>
#include <seppo/nn/text/tokenizer.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

inline constexpr const char* kBosHelp = "whether a text begins with the model's token for that; an empty prompt does";

inline constexpr const char* kSpecialHelp = "text that spells a special token, such as <|endoftext|>, is that token";

inline seppo::SpecialText special_text(bool is_token) {
  return is_token ? seppo::SpecialText::tokens : seppo::SpecialText::letters;
}

// What the weights of a folder are stored as.
enum class Dtype { same, float32, bfloat16, float16 };
inline std::span<const char* const> enum_names(Dtype) {
  static constexpr const char* kNames[] = {"same", "float32", "bfloat16", "float16"};
  return kNames;
}
inline constexpr const char* kDtypeHelp =
    "of the weights in the folder; same: as in the model that is read, or float32";

// The type of weights that were `read` in another folder.
seppo::WeightType stored_as(Dtype dtype, seppo::WeightType read);

// Where a tokenizer and a template for chats are: in a folder, in a GGUF file, which is then read once, or nowhere.
struct TextFiles {
  TextFiles() = default;
  TextFiles(std::filesystem::path from);

  std::filesystem::path path = {};
  std::shared_ptr<const seppo::GgufFile> gguf = {};  // if the path is that of one
};

// Its path is empty if the model is new.
struct Folder : seppo::Pretrained {
  seppo::Tokenizer tokenizer;  // has as many tokens as the model
  TextFiles texts = {};        // where that is from

  // Throws examples::UsageError if --bos asks for a token that the model does not have. Warns of bytes that are no
  // tokens, and are left out.
  std::vector<int> encode(std::string_view text, seppo::Bos bos = seppo::Bos::tokenizer,
                          seppo::SpecialText special = seppo::SpecialText::letters) const;
};

// Of a folder, or of a GGUF file. Throws examples::UsageError if the folder of --model has no model, or not exactly one
// tokenizer; what load_pretrained() and read_tokenizer(), or load_gguf() and read_gguf_tokenizer(), throw.
Folder open_folder(const std::filesystem::path& folder, std::uint64_t seed = 0);

// The tokenizer in the folder of an option. Throws examples::UsageError if there is not exactly one.
seppo::Tokenizer read_tokenizer(const std::string& option, const std::filesystem::path& folder);

// Replaces the model in a folder, whole or not at all, with the tokenizer from another folder or a GGUF file, or with
// the bytes as tokens if there is none. `values` and `type` are save_pretrained()'s. Throws examples::UsageError if the
// folder cannot be made or written.
void write_folder(const std::filesystem::path& folder, const seppo::HfConfig& config,
                  const seppo::Parameters& parameters, const TextFiles& tokenizer,
                  const seppo::ValuesOf& values = nullptr, seppo::WeightType type = seppo::WeightType::own);

// Throws examples::UsageError if `out`, the folder of an option, is that of the model that is read, or if one of them
// has the other as hf/.
void check_apart(const std::string& option, const std::filesystem::path& out, const std::filesystem::path& model);

}  // namespace llm
