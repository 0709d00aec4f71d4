// The parts of a tokenizer.json, each read by a function: what they say becomes a part of the pipeline (tokenizer.h).
#pragma once

#include "tokenizer.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/real.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Values of JSON objects, in a file that errors name.
struct JsonFields {
  std::string name;
  mutable std::size_t pattern_bytes = 0;  // of patterns that were read

  using Json = nlohmann::json;
  using Kind = Json::value_t;

  // Throws FormatError, "NAME: 'key' is missing, or no KIND".
  const Json& part(const Json& object, const char* key, Kind kind) const;
  std::string text(const Json& object, const char* key) const;
  // One that is put into other texts. Throws FormatError if it has more than 1024 bytes.
  std::string inserted(const Json& object, const char* key) const;
  bool flag(const Json& object, const char* key) const;
  // The same, or what it means if it is missing or null.
  std::string text_or(const Json& object, const char* key, const char* missing) const;
  bool flag_or(const Json& object, const char* key, bool missing) const;
  // A number that is not negative. Throws FormatError if it is larger than `most`.
  std::size_t number(const Json& object, const char* key, std::size_t most) const;
  // {"String": ...} or {"Regex": ...}. Throws FormatError if all that were read have more than 64 KiB, since patterns
  // take much more memory than their texts.
  Pattern pattern(const Json& object) const;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail<FormatError>(name, ": ", parts...);
  }
};

// Appends what the normalizer does.
void read_normalizers(const JsonFields& fields, const nlohmann::json& normalizer, std::vector<Normalizer>& made);

// Adds the steps to the tokenizer. Returns whether words become bytes in GPT-2's alphabet.
bool read_pre_tokenizers(const JsonFields& fields, const nlohmann::json& pre_tokenizer, Tokenizer& made);

// "BPE", "WordPiece", "Unigram" or "WordLevel". Files of 2020 do not say it: there the model's keys tell.
std::string model_type(const JsonFields& fields, const nlohmann::json& model);

// Sets the model, and returns the texts of its tokens by id. `is_of_bytes` says that words are bytes, which the
// vocabulary writes in GPT-2's alphabet. Special tokens are not found in texts, unless they
// are one letter.
std::vector<std::string> read_model(const JsonFields& fields, const nlohmann::json& model,
                                    std::span<const AddedToken> added, bool is_of_bytes, Tokenizer& made);

// Sets the tokens before and behind a text.
void read_post_processor(const JsonFields& fields, const nlohmann::json& processor, Tokenizer& made);

TokenDecoder read_decoder(const JsonFields& fields, const nlohmann::json& decoder);

}  // namespace SEPPO_ABI
}  // namespace seppo
