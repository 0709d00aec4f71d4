// What the JSON files beside a tokenizer have in common: tokenizer_config.json, special_tokens_map.json and others.
#pragma once

#include "../../autograd/core/real.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// The object in the file; empty if there is no such file. Throws FileError; FormatError if it is no JSON object.
nlohmann::json object_in(const std::filesystem::path& file);

// Of a token, which is "<s>" or {"content": "<s>", ...}; nothing if it is neither.
std::optional<std::string> token_text(const nlohmann::json& token);

}  // namespace SEPPO_ABI
}  // namespace seppo
