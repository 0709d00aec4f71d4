// The tokens that the files beside a tokenizer add to it.
//
// Hugging Face's loaders read them where the tokenizer's own format has no place for them, as vocab.json with
// merges.txt and SentencePiece's tokenizer.model have none: chat models have their marks there. A tokenizer.json names
// all of its tokens itself.
#pragma once

#include "../../autograd/core/real.h"

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace seppo {
inline namespace SEPPO_ABI {

// "added_tokens_decoder" of the folder's tokenizer_config.json, or else added_tokens.json, as a list of a
// tokenizer.json's added_tokens; empty if there is neither. Of added_tokens.json, which names tokens only, those are
// special that tokenizer_config.json or special_tokens_map.json names. Throws FileError; FormatError naming the file
// and what in it is no token.
nlohmann::json added_in_folder(const std::filesystem::path& folder);

// Both lists in one; of two entries with one id, that of `more`.
nlohmann::json joined_added_tokens(const nlohmann::json& tokens, const nlohmann::json& more);

}  // namespace SEPPO_ABI
}  // namespace seppo
