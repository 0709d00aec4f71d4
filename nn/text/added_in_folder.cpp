// Two formats of added tokens: with all that is said of each, and with names only.
#include "added_in_folder.h"

#include "token_files.h"
#include "tokenizer_json_writer.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/json.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

void add_text(std::set<std::string>& texts, const json& token) {
  if (const auto text = token_text(token)) texts.insert(*text);
}

// The texts of "bos_token", "pad_token" and so on, and of lists of further special tokens.
std::set<std::string> special_in(const json& object) {
  std::set<std::string> texts;
  for (const auto& [key, value] : object.items()) {
    if (key.ends_with("_token")) add_text(texts, value);
    const bool is_list = (key == "additional_special_tokens" || key == "extra_special_tokens") && value.is_array();
    if (!is_list) continue;
    for (const json& token : value) add_text(texts, token);
  }
  return texts;
}

std::size_t id_of(const std::string& digits, const std::string& name) {
  std::size_t id = 0;
  const char* const end = digits.data() + digits.size();
  const auto [last, error] = std::from_chars(digits.data(), end, id);
  check<FormatError>(error == std::errc{} && last == end, name, ": 'added_tokens_decoder': '", printable(digits),
                     "' is no number of a token");
  return id;
}

// An entry about which nothing else is said: only special ones are looked for in a text as it is.
json entry_of(std::size_t id, const std::string& text, bool is_special) {
  json entry = added_token_json(id, text, is_special);
  entry["normalized"] = !is_special;
  return entry;
}

// {"32000": {"content": "<|im_end|>", "special": true, ...}, ...}
json from_decoder(const json& decoder, const std::string& name) {
  check<FormatError>(decoder.is_object(), name, ": 'added_tokens_decoder' is no object");
  json all = json::array();
  for (const auto& [digits, token] : decoder.items()) {
    check<FormatError>(token.is_object(), name, ": 'added_tokens_decoder': '", printable(digits), "' is no object");
    json entry = entry_of(id_of(digits, name), "", token.value("special", json()) == true);
    for (auto& [key, value] : entry.items())
      if (key != "id" && token.contains(key)) value = token[key];
    all.push_back(std::move(entry));
  }
  return all;
}

// {"<|im_end|>": 32000, ...}
json from_names(const json& names, const std::set<std::string>& special, const std::string& name) {
  json all = json::array();
  for (const auto& [text, id] : names.items()) {
    check<FormatError>(id.is_number_unsigned(), name, ": '", printable(text), "': ", printable_json(id),
                       " is no number of a token");
    all.push_back(entry_of(id.get<std::size_t>(), text, special.contains(text)));
  }
  return all;
}

}  // namespace

json added_in_folder(const fs::path& folder) {
  const fs::path config_file = folder / "tokenizer_config.json", names_file = folder / "added_tokens.json";
  const json config = object_in(config_file);
  if (config.contains("added_tokens_decoder"))
    return from_decoder(config["added_tokens_decoder"], printable_path(config_file));
  std::set<std::string> special = special_in(config);
  special.merge(special_in(object_in(folder / "special_tokens_map.json")));
  return from_names(object_in(names_file), special, printable_path(names_file));
}

json joined_added_tokens(const json& tokens, const json& more) {
  std::map<json, json> by_id;
  for (const json* const list : {&tokens, &more})
    for (const json& token : *list) by_id[token["id"]] = token;
  json all = json::array();
  for (const auto& [id, token] : by_id) all.push_back(token);
  return all;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
