// Parts of a tokenizer.json (tokenizer_json.h), for tokenizers that come in other formats.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// A model of BPE; `vocabulary` is an object of ids, `merges` a list.
nlohmann::json bpe_json(const nlohmann::json& vocabulary, const nlohmann::json& merges);

// The pre-tokenizer, decoder or post-processor that turns bytes into GPT-2's alphabet; as a pre-tokenizer it may also
// split GPT-2's words.
nlohmann::json byte_level_json(bool has_words, bool adds_space = false);

// An entry of added_tokens that is found anywhere in a text, as it is.
nlohmann::json added_token_json(std::size_t id, const std::string& text, bool is_special);

// Several normalizers, pre-tokenizers or decoders, one after another; `parts` is the name of their list.
nlohmann::json sequence_json(const char* parts, const nlohmann::json& all);

struct NamedToken {
  std::string text;
  std::size_t id;
};
// The post-processor that puts these tokens before and behind a text.
nlohmann::json marks_json(const std::optional<NamedToken>& before, const std::optional<NamedToken>& behind);

// The whole file: `parts` has "model", "pre_tokenizer" and so on; what it lacks is null, or empty.
nlohmann::json whole_json(const nlohmann::json& parts);

}  // namespace SEPPO_ABI
}  // namespace seppo
