// Reads and writes config.json, with Hugging Face's defaults.
#include "hf_config.h"

#include "config_keys.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/foreign_weights.h"
#include "../../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

constexpr int kMostWidth = 1 << 28;

// The base of the rotary positions. Transformers 5 writes what concerns these into 'rope_parameters', earlier versions
// write into 'rope_scaling' how positions are scaled.
double read_rope_theta(const ConfigKeys& keys) {
  double theta = keys.number("rope_theta", 10000);
  for (const char* part : {"rope_scaling", "rope_parameters"}) {
    if (!keys.has(part) || *keys.find(part) == false) continue;
    const ConfigKeys rope(keys.name() + ": '" + part + "'", *keys.find(part));
    for (const char* type : {"rope_type", "type"}) rope.one_of(type, {"default"});
    theta = rope.number("rope_theta", theta);
    rope.check_others();
  }
  return theta;
}

void read_llama(const ConfigKeys& keys, LanguageModelConfig& m) {
  keys.one_of("hidden_act", {"silu", "swish"});
  for (const char* biased : {"attention_bias", "mlp_bias"}) keys.one_of(biased, {false});
  m.vocabulary = keys.integer("vocab_size");
  m.layer.d_model = keys.integer("hidden_size");
  m.layer.d_ff = keys.integer("intermediate_size");
  m.n_layers = keys.integer("num_hidden_layers");
  m.layer.n_heads = keys.integer("num_attention_heads");
  m.layer.n_kv_heads = keys.integer("num_key_value_heads", m.layer.n_heads);
  m.max_length = keys.integer("max_position_embeddings", 2048);
  m.layer.eps = keys.number("rms_norm_eps", 1e-6);
  m.rope_theta = read_rope_theta(keys);
  m.tie_output = keys.flag("tie_word_embeddings", false);
  const int heads = std::max(1, m.layer.n_heads);
  const std::int64_t width = keys.integer("head_dim", m.layer.d_model / heads);
  check<FormatError>(width * heads == m.layer.d_model, keys.name(), ": 'head_dim': ", heads, " heads of ", width,
                     " are not as wide as the model, ", m.layer.d_model);
}

Activation read_gpt2_activation(const ConfigKeys& keys) {
  const json kind = keys.one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu", "relu"});
  if (kind == "gelu") return Activation::gelu;
  if (kind == "relu") return Activation::relu;
  return Activation::gelu_tanh;
}

void read_gpt2(const ConfigKeys& keys, LanguageModelConfig& m) {
  m.layer.activation = read_gpt2_activation(keys);
  keys.one_of("scale_attn_weights", {true});
  keys.one_of("scale_attn_by_inverse_layer_idx", {false});
  m.vocabulary = keys.integer("vocab_size");
  m.layer.d_model = keys.integer("n_embd");
  check<FormatError>(keys.has("n_inner") || m.layer.d_model <= kMostWidth, keys.name(), ": 'n_embd' is more than ",
                     kMostWidth, ", a quarter of the widest layer");
  m.layer.d_ff = keys.has("n_inner") ? keys.integer("n_inner") : 4 * m.layer.d_model;
  m.n_layers = keys.integer("n_layer");
  m.layer.n_heads = keys.integer("n_head");
  m.max_length = keys.integer("n_positions", 1024);
  m.layer.eps = keys.number("layer_norm_epsilon", 1e-5);
  m.tie_output = keys.flag("tie_word_embeddings", true);
}

void read_model(const ConfigKeys& keys, HfConfig& made) {
  try {
    if (made.architecture == Architecture::llama) {
      read_llama(keys, made.model);
    } else {
      read_gpt2(keys, made.model);
    }
    check_config("the model", made.model);
  } catch (const ArgumentError& e) {
    fail<FormatError>(keys.name(), ": ", e.what());
  }
}

// The tokens of a key, or the token that Hugging Face takes if the key is missing and the model has such a token.
std::vector<int> tokens_or(const ConfigKeys& keys, const char* key, int usual, int vocabulary) {
  if (keys.find(key)) return keys.tokens(key, vocabulary);
  if (usual >= vocabulary) return {};
  return {usual};
}

ConfigKeys keys_of(const std::filesystem::path& file) {
  const std::string name = printable_path(file);
  return ConfigKeys(name, parse_python_json(read_text(file), name));
}

}  // namespace

void set_architecture(Architecture architecture, LanguageModelConfig& m) {
  const bool is_llama = architecture == Architecture::llama;
  m.layer.norm = Norm::pre;
  m.layer.norm_kind = is_llama ? NormKind::rms : NormKind::layer;
  m.layer.activation = is_llama ? Activation::swiglu : Activation::gelu_tanh;
  m.layer.bias = !is_llama;
  m.positions = is_llama ? Positions::rotary_halves : Positions::learned;
}

HfConfig read_hf_config(const std::filesystem::path& file) {
  const ConfigKeys keys = keys_of(file);
  const json type = keys.has("model_type") ? *keys.find("model_type") : json();
  check<FormatError>(type == "llama" || type == "gpt2", keys.name(), ": 'model_type': ", printable(type.dump()),
                     " is not supported; known are llama and gpt2");
  const bool is_llama = type == "llama";
  HfConfig made{.architecture = is_llama ? Architecture::llama : Architecture::gpt2,
                .model = {.layer = {.dropout = 0}}};
  set_architecture(made.architecture, made.model);
  read_model(keys, made);
  const int vocabulary = made.model.vocabulary;
  const std::vector<int> bos = tokens_or(keys, "bos_token_id", is_llama ? 1 : 50256, vocabulary);
  if (!bos.empty()) made.bos = bos[0];
  made.stops = tokens_or(keys, "eos_token_id", is_llama ? 2 : 50256, vocabulary);
  keys.check_others();
  return made;
}

namespace {

int n_kv_heads(const LayerConfig& layer) { return layer.n_kv_heads > 0 ? layer.n_kv_heads : layer.n_heads; }

json llama_json(const LanguageModelConfig& m) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", m.layer.d_model},
          {"intermediate_size", m.layer.d_ff},
          {"num_hidden_layers", m.n_layers},
          {"num_attention_heads", m.layer.n_heads},
          {"num_key_value_heads", n_kv_heads(m.layer)},
          {"max_position_embeddings", m.max_length},
          {"rms_norm_eps", m.layer.eps},
          {"rope_theta", m.rope_theta},
          {"hidden_act", "silu"},
          {"attention_bias", false}};
}

const char* gpt2_activation(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return "gelu";
    case Activation::relu:
      return "relu";
    default:
      return "gelu_new";
  }
}

json gpt2_json(const LanguageModelConfig& m) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", m.layer.d_model},
          {"n_inner", m.layer.d_ff},
          {"n_layer", m.n_layers},
          {"n_head", m.layer.n_heads},
          {"n_positions", m.max_length},
          {"layer_norm_epsilon", m.layer.eps},
          {"activation_function", gpt2_activation(m.layer.activation)}};
}

// One token, several, or null.
json tokens_json(const std::vector<int>& tokens) {
  if (tokens.empty()) return nullptr;
  if (tokens.size() == 1) return tokens[0];
  return tokens;
}

}  // namespace

json to_json(const HfConfig& config) {
  const LanguageModelConfig& m = config.model;
  json all = config.architecture == Architecture::llama ? llama_json(m) : gpt2_json(m);
  all.update({{"vocab_size", m.vocabulary}, {"tie_word_embeddings", m.tie_output}, {"torch_dtype", "float32"}});
  all.update(text_tokens(config));
  return all;
}

json text_tokens(const HfConfig& config) {
  const json bos = config.bos ? json(*config.bos) : json();
  return {{"bos_token_id", bos}, {"eos_token_id", tokens_json(config.stops)}};
}

WeightOptions weights_of(const HfConfig& config, const std::string& prefix) {
  const LayerConfig& layer = config.model.layer;
  const bool is_llama = config.architecture == Architecture::llama;
  WeightOptions options = is_llama ? llama_weights(layer.n_heads, n_kv_heads(layer)) : gpt2_weights(prefix);
  // Adapters are not among the model's weights, and a tied output layer needs no copy of the embedding.
  const auto is_adapter = [](const std::string& name) { return name.starts_with("lora."); };
  const auto is_copy = [is_tied = config.model.tie_output](const std::string& name) {
    return is_tied && name == "lm_head.weight";
  };
  options.rename = [=, rename = options.rename](const std::string& name) {
    return is_adapter(name) ? std::vector{name} : rename(name);
  };
  options.skip = [=, skip = options.skip](const std::string& name) {
    return is_adapter(name) || is_copy(name) || skip(name);
  };
  return options;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
