// Reads and writes config.json, with Hugging Face's defaults.
#include "llm/hf_config.h"

#include "app/text_file.h"
#include "foreign_weights.h"
#include "llm/config_keys.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>

#include <algorithm>
#include <cstdint>

namespace llm {

using nlohmann::json;
using seppo::Activation;
using seppo::check;
using seppo::FormatError;
using seppo::NormKind;
using seppo::Positions;
using seppo::printable;

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

void read_llama(const ConfigKeys& keys, seppo::LanguageModelConfig& m) {
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

void read_gpt2(const ConfigKeys& keys, seppo::LanguageModelConfig& m) {
  const json kind = keys.one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu", "relu"});
  m.layer.activation = kind == "gelu" ? Activation::gelu : kind == "relu" ? Activation::relu : Activation::gelu_tanh;
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

// The tokens of a key, or the token that Hugging Face takes if the key is missing and the model has such a token.
std::vector<int> tokens_or(const ConfigKeys& keys, const char* key, int usual, int vocabulary) {
  if (keys.find(key)) return keys.tokens(key, vocabulary);
  return usual < vocabulary ? std::vector{usual} : std::vector<int>();
}

}  // namespace

void set_shape(Shape shape, seppo::LanguageModelConfig& m) {
  const bool is_llama = shape == Shape::llama;
  m.layer.norm = seppo::Norm::pre;
  m.layer.norm_kind = is_llama ? NormKind::rms : NormKind::layer;
  m.layer.activation = is_llama ? Activation::swiglu : Activation::gelu_tanh;
  m.layer.bias = !is_llama;
  m.positions = is_llama ? Positions::rotary_halves : Positions::learned;
}

HfConfig read_hf_config(const std::filesystem::path& file) {
  const std::string name = seppo::printable_path(file);
  const ConfigKeys keys(name, parse_python_json(examples::read_text(file), name));
  const json type = keys.has("model_type") ? *keys.find("model_type") : json();
  check<FormatError>(type == "llama" || type == "gpt2", name, ": 'model_type': ", printable(type.dump()),
                     " is not supported; known are llama and gpt2");
  const bool is_llama = type == "llama";
  HfConfig made{.shape = is_llama ? Shape::llama : Shape::gpt2, .model = {.layer = {.dropout = 0}}};
  set_shape(made.shape, made.model);
  try {
    is_llama ? read_llama(keys, made.model) : read_gpt2(keys, made.model);
    seppo::check_config("the model", made.model);
  } catch (const seppo::ArgumentError& e) {
    seppo::fail<FormatError>(name, ": ", e.what());
  }
  const std::vector<int> bos = tokens_or(keys, "bos_token_id", is_llama ? 1 : 50256, made.model.vocabulary);
  if (!bos.empty()) made.bos = bos[0];
  made.stops = tokens_or(keys, "eos_token_id", is_llama ? 2 : 50256, made.model.vocabulary);
  keys.check_others();
  return made;
}

json to_json(const HfConfig& config) {
  const seppo::LanguageModelConfig& m = config.model;
  json all;
  if (config.shape == Shape::llama)
    all = {{"architectures", {"LlamaForCausalLM"}},
           {"model_type", "llama"},
           {"hidden_size", m.layer.d_model},
           {"intermediate_size", m.layer.d_ff},
           {"num_hidden_layers", m.n_layers},
           {"num_attention_heads", m.layer.n_heads},
           {"num_key_value_heads", m.layer.n_kv_heads > 0 ? m.layer.n_kv_heads : m.layer.n_heads},
           {"max_position_embeddings", m.max_length},
           {"rms_norm_eps", m.layer.eps},
           {"rope_theta", m.rope_theta},
           {"hidden_act", "silu"},
           {"attention_bias", false}};
  else
    all = {{"architectures", {"GPT2LMHeadModel"}},
           {"model_type", "gpt2"},
           {"n_embd", m.layer.d_model},
           {"n_inner", m.layer.d_ff},
           {"n_layer", m.n_layers},
           {"n_head", m.layer.n_heads},
           {"n_positions", m.max_length},
           {"layer_norm_epsilon", m.layer.eps},
           {"activation_function", m.layer.activation == Activation::gelu   ? "gelu"
                                   : m.layer.activation == Activation::relu ? "relu"
                                                                            : "gelu_new"}};
  all.update({{"vocab_size", m.vocabulary}, {"tie_word_embeddings", m.tie_output}, {"torch_dtype", "float32"}});
  all.update(text_tokens(config));
  return all;
}

json text_tokens(const HfConfig& config) {
  const std::vector<int>& stops = config.stops;
  return {{"bos_token_id", config.bos ? json(*config.bos) : json()},
          {"eos_token_id", stops.size() > 1 ? json(stops)
                           : stops.empty()  ? json()
                                            : json(stops[0])}};
}

seppo::WeightOptions weights_of(const HfConfig& config, const std::string& prefix) {
  const seppo::LayerConfig& l = config.model.layer;
  seppo::WeightOptions options = config.shape == Shape::llama
                                     ? examples::llama_weights(l.n_heads, l.n_kv_heads > 0 ? l.n_kv_heads : l.n_heads)
                                     : examples::gpt2_weights(prefix);
  // Adapters are not among the model's weights, and a tied output layer needs no copy of the embedding.
  const auto is_adapter = [](const std::string& name) { return name.starts_with("lora."); };
  options.rename = [=, rename = options.rename](const std::string& name) {
    return is_adapter(name) ? std::vector{name} : rename(name);
  };
  options.skip = [=, skip = options.skip, is_tied = config.model.tie_output](const std::string& name) {
    return is_adapter(name) || (is_tied && name == "lm_head.weight") || skip(name);
  };
  return options;
}

}  // namespace llm
