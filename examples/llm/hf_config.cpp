// Reads and writes config.json: checks the type of each key, and fills in Hugging Face's defaults.
#include "llm/hf_config.h"

#include "app/text_file.h"
#include "foreign_weights.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/text.h>
#include <seppo/nn/io/json.h>

namespace llm {

using nlohmann::json;
using seppo::Activation;
using seppo::check;
using seppo::FormatError;
using seppo::NormKind;
using seppo::Positions;
using seppo::printable;

namespace {

struct Reader {
  std::string name;  // of the file
  json all = {};

  bool has(const char* key) const { return all.contains(key) && !all[key].is_null(); }
  int integer(const char* key, std::optional<int> fallback = {}) const {
    if (!has(key) && fallback) return *fallback;
    const bool fits = has(key) && all[key].is_number_unsigned() && all[key].get<std::uint64_t>() <= 1 << 30;
    check<FormatError>(fits, name, ": '", key, "' is missing, or no integer from 0 to 2^30");
    return all[key].get<int>();
  }
  double number(const char* key, double fallback) const {
    if (!has(key)) return fallback;
    check<FormatError>(all[key].is_number(), name, ": '", key, "' is no number");
    return all[key].get<double>();
  }
  bool flag(const char* key, bool fallback) const {
    if (!has(key)) return fallback;
    check<FormatError>(all[key].is_boolean(), name, ": '", key, "' is neither true nor false");
    return all[key].get<bool>();
  }
  // One of these values; the first is the default.
  json one_of(const char* key, const json& values) const {
    const json value = has(key) ? all[key] : values[0];
    check<FormatError>(std::find(values.begin(), values.end(), value) != values.end(), name, ": '", key,
                       "': ", printable(value.dump()), " is not supported; known are ", values.dump());
    return value;
  }
  std::vector<int> tokens(const char* key, int vocabulary) const {
    std::vector<int> ids;
    for (const json& id : has(key) ? all[key].is_array() ? all[key] : json{all[key]} : json::array()) {
      const bool is_token = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<unsigned>(vocabulary);
      check<FormatError>(is_token, name, ": '", key, "': ", printable(id.dump()), " is no token of ", vocabulary);
      ids.push_back(id.get<int>());
    }
    return ids;
  }
};

// The base of the rotary positions. Transformers 5 writes what concerns these into an object of its own.
double read_rope_theta(const Reader& r) {
  const double theta = r.number("rope_theta", 10000);
  if (!r.has("rope_parameters")) return theta;
  const Reader rope{r.name + ": 'rope_parameters'", r.all["rope_parameters"]};
  check<FormatError>(rope.all.is_object(), rope.name, ": is no object");
  for (const auto& [key, value] : rope.all.items())
    check<FormatError>(key == "rope_type" || key == "rope_theta" || key == "partial_rotary_factor", rope.name, ": '",
                       printable(key), "' is not supported");
  rope.one_of("rope_type", {"default"});
  rope.one_of("partial_rotary_factor", {1});
  return rope.number("rope_theta", theta);
}

void read_llama(const Reader& r, seppo::LanguageModelConfig& m) {
  r.one_of("hidden_act", {"silu"});
  for (const char* key : {"rope_scaling", "attention_bias", "mlp_bias"}) r.one_of(key, {nullptr, false});
  m.vocabulary = r.integer("vocab_size");
  m.layer.d_model = r.integer("hidden_size");
  m.layer.d_ff = r.integer("intermediate_size");
  m.n_layers = r.integer("num_hidden_layers");
  m.layer.n_heads = r.integer("num_attention_heads");
  m.layer.n_kv_heads = r.integer("num_key_value_heads", m.layer.n_heads);
  m.max_length = r.integer("max_position_embeddings", 2048);
  m.layer.eps = r.number("rms_norm_eps", 1e-6);
  m.rope_theta = read_rope_theta(r);
  m.tie_output = r.flag("tie_word_embeddings", false);
  const int heads = std::max(1, m.layer.n_heads), width = r.integer("head_dim", m.layer.d_model / heads);
  check<FormatError>(width * heads == m.layer.d_model, r.name, ": 'head_dim': ", heads, " heads of ", width,
                     " are not as wide as the model, ", m.layer.d_model);
}

void read_gpt2(const Reader& r, seppo::LanguageModelConfig& m) {
  const json kind = r.one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu", "relu"});
  m.layer.activation = kind == "gelu" ? Activation::gelu : kind == "relu" ? Activation::relu : Activation::gelu_tanh;
  r.one_of("scale_attn_weights", {true});
  r.one_of("scale_attn_by_inverse_layer_idx", {false});
  m.vocabulary = r.integer("vocab_size");
  m.layer.d_model = r.integer("n_embd");
  m.layer.d_ff = r.integer("n_inner", 4 * m.layer.d_model);
  m.n_layers = r.integer("n_layer");
  m.layer.n_heads = r.integer("n_head");
  m.max_length = r.integer("n_positions", 1024);
  m.layer.eps = r.number("layer_norm_epsilon", 1e-5);
  m.tie_output = r.flag("tie_word_embeddings", true);
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
  Reader r{seppo::printable_path(file)};
  r.all = seppo::parse_json(examples::read_text(file), r.name);
  check<FormatError>(r.all.is_object(), r.name, ": is no object");
  const json type = r.has("model_type") ? r.all["model_type"] : json();
  check<FormatError>(type == "llama" || type == "gpt2", r.name, ": 'model_type': ", printable(type.dump()),
                     " is not supported; known are llama and gpt2");
  HfConfig made{.shape = type == "llama" ? Shape::llama : Shape::gpt2, .model = {.layer = {.dropout = 0}}};
  set_shape(made.shape, made.model);
  try {
    made.shape == Shape::llama ? read_llama(r, made.model) : read_gpt2(r, made.model);
    seppo::check_config("the model", made.model);
  } catch (const seppo::ArgumentError& e) {
    seppo::fail<FormatError>(r.name, ": ", e.what());
  }
  const std::vector<int> bos = r.tokens("bos_token_id", made.model.vocabulary);
  if (!bos.empty()) made.bos = bos[0];
  made.stops = r.tokens("eos_token_id", made.model.vocabulary);
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
  if (config.bos) all["bos_token_id"] = *config.bos;
  if (!config.stops.empty())
    all["eos_token_id"] = config.stops.size() == 1 ? json(config.stops[0]) : json(config.stops);
  return all;
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
