// Reads and writes config.json, with Hugging Face's defaults.
#include "hf_config.h"

#include "config_keys.h"
#include "families/family.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/json.h"
#include "../../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

void read_model(const ConfigKeys& keys, const Family& family, LanguageModelConfig& m) {
  try {
    for (const Key& key : family.keys) key.read(keys, m);
    check_config("the model", m);
  } catch (const ArgumentError& e) {
    fail<FormatError>(keys.name(), ": ", e.what());
  }
}

// The tokens of a key, or the token that Hugging Face takes if the key is missing and the model has such a token.
std::vector<int> tokens_or(const ConfigKeys& keys, const char* key, std::optional<int> usual, int vocabulary) {
  if (keys.find(key)) return keys.tokens(key, vocabulary);
  if (!usual || *usual >= vocabulary) return {};
  return {*usual};
}

// Some files name one that is no token.
std::optional<int> padding_of(const ConfigKeys& keys, int vocabulary) {
  const json* const token = keys.find("pad_token_id");
  const bool is_token = token && token->is_number_unsigned() && *token < vocabulary;
  return is_token ? std::optional(token->get<int>()) : std::nullopt;
}

// The family of a file's 'model_type'.
Architecture read_architecture(const ConfigKeys& keys) {
  const json type = keys.has("model_type") ? *keys.find("model_type") : json();
  const std::vector<Family>& all = families();
  const auto found = std::ranges::find_if(all, [&](const Family& family) { return type == family.type; });
  if (found != all.end()) return static_cast<Architecture>(found - all.begin());
  std::string known;
  for (const Family& family : all) known += (known.empty() ? "" : ", ") + family.type;
  fail<FormatError>(keys.name(), ": 'model_type': ", printable_json(type), " is not supported; known are ", known);
}

// What a config of this family says.
json written_keys(Architecture architecture) {
  json all;
  for (const Key& key : family_of(architecture).keys) key.write(all, {});
  return all;
}

ConfigKeys keys_of(const std::filesystem::path& file) {
  const std::string name = printable_path(file);
  return ConfigKeys(name, parse_python_json(read_text(file), name));
}

}  // namespace

std::span<const char* const> enum_names(Architecture) {
  static const std::vector<const char*> names = [] {
    std::vector<const char*> types;
    for (const Family& family : families()) types.push_back(family.type.c_str());
    return types;
  }();
  return names;
}

void set_architecture(Architecture architecture, LanguageModelConfig& m) {
  const LanguageModelConfig& own = family_of(architecture).model;
  m.layer.norm = own.layer.norm;
  m.layer.norm_kind = own.layer.norm_kind;
  m.layer.activation = own.layer.activation;
  m.layer.bias = own.layer.bias;
  m.positions = own.positions;
  m.decoder = own.decoder;
  if (own.decoder.output_bias) m.tie_output = false;  // the bias is of an output layer of its own
}

bool has_kv_heads(Architecture architecture) {
  const json keys = written_keys(architecture);
  return keys.contains("num_key_value_heads") || keys.contains("num_kv_heads");
}

bool has_head_width(Architecture architecture) { return written_keys(architecture).contains("head_dim"); }

HfConfig read_hf_config(const std::filesystem::path& file) {
  const ConfigKeys keys = keys_of(file);
  HfConfig made{.architecture = read_architecture(keys)};
  const Family& family = family_of(made.architecture);
  made.model = family.model;
  read_model(keys, family, made.model);
  const int vocabulary = made.model.vocabulary;
  const std::vector<int> bos = tokens_or(keys, "bos_token_id", family.bos, vocabulary);
  if (!bos.empty()) made.bos = bos[0];
  made.pad = padding_of(keys, vocabulary);
  made.stops = tokens_or(keys, "eos_token_id", family.eos, vocabulary);
  keys.check_others();
  return made;
}

namespace {

// One token, several, or null.
json tokens_json(const std::vector<int>& tokens) {
  if (tokens.empty()) return nullptr;
  if (tokens.size() == 1) return tokens[0];
  return tokens;
}

}  // namespace

json to_json(const HfConfig& config) {
  const Family& family = family_of(config.architecture);
  json all{{"architectures", {family.maker}}, {"model_type", family.type}, {"torch_dtype", "float32"}};
  for (const Key& key : family.keys) key.write(all, config.model);
  all.update(text_tokens(config));
  return all;
}

json text_tokens(const HfConfig& config) {
  const auto one = [](const std::optional<int>& token) { return token ? json(*token) : json(); };
  return {{"bos_token_id", one(config.bos)},
          {"eos_token_id", tokens_json(config.stops)},
          {"pad_token_id", one(config.pad)}};
}

WeightOptions weights_of(const HfConfig& config, bool has_prefix) {
  return weights_of(family_of(config.architecture), config.model, has_prefix);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
