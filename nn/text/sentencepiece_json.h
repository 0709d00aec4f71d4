// SentencePiece's models (Kudo and Richardson 2018) as parts of a tokenizer.json (tokenizer_json.h), whatever file they
// come from.
#pragma once

#include "../../autograd/core/real.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// As sentencepiece_model.proto and ggml number them.
enum class PieceType { normal = 1, unknown, control, user_defined, unused, byte };

struct SentencePieces {
  // Of each token: all different, as many scores and types.
  std::vector<std::string> texts = {};
  std::vector<double> scores = {};
  std::vector<PieceType> types = {};
  std::unordered_map<std::string, std::size_t> ids = {};  // of the texts

  bool is_unigram = false;                  // else BPE, where the pair whose concatenation scores best merges first
  bool has_bytes = true;                    // what is no token becomes its bytes' tokens
  bool adds_space = true;                   // before a text, and behind each added token
  bool adds_once = false;                   // not behind added tokens, nor before a space
  bool adds_users = false;                  // tokens of users are added tokens; else found where spaces are marks
  bool trims_spaces = false;                // at both ends, and one is left of several
  std::string charsmap = {};                // the table of a normalization (charsmap.h); may be empty
  std::optional<std::size_t> unknown = {};  // the token of what has none
};

// "normalizer", "pre_tokenizer", "decoder", "model" and "added_tokens". `name` is the file's, for errors. Throws
// FormatError for a token of BPE of more than 256 bytes, and for more than a million pairs that merge.
nlohmann::json sentencepiece_json(const SentencePieces& pieces, const std::string& name);

// The "added_tokens" among tokens of these types: special tokens and, if `adds_users`, those of users.
nlohmann::json added_tokens_json(std::span<const std::string> texts, std::span<const PieceType> types,
                                 bool adds_users = true);

}  // namespace SEPPO_ABI
}  // namespace seppo
