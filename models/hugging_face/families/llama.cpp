// LLaMA (Touvron et al. 2023) and the families that differ from it by a few switches.
#include "family.h"
#include "layer_keys.h"
#include "rope_keys.h"

#include <algorithm>
#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {

LanguageModelConfig llama_model() {
  return {.layer = {.dropout = 0,
                    .norm = Norm::pre,
                    .activation = Activation::swiglu,
                    .bias = false,
                    .norm_kind = NormKind::rms},
          .positions = Positions::rotary_halves};
}

// The sizes, without what a family may say otherwise: head_dim, rotary positions, biases, and eps.
Keys llama_keys(const UsualSizes& usual) {
  return {integer("vocab_size", member::vocabulary),
          integer("hidden_size", member::d_model),
          integer("intermediate_size", member::d_ff),
          integer("num_hidden_layers", member::n_layers),
          integer("num_attention_heads", member::n_heads),
          kv_heads(usual.kv_heads),
          integer("max_position_embeddings", member::max_length, usual.max_length)};
}

Family llama() {
  return {.type = "llama",
          .maker = "LlamaForCausalLM",
          .model = llama_model(),
          .keys = llama_keys() + Keys{head_width(), rope(), number("rms_norm_eps", member::eps, 1e-6),
                                      activation("hidden_act", Gate::yes, "silu"),
                                      biases("attention_bias", {member::qkv_bias, member::out_bias}, false),
                                      biases("mlp_bias", {member::ffn_bias}, false),
                                      flag("tie_word_embeddings", member::tie_output, false)},
          .names = fixed(llama_names()),
          .prefix = "model.",
          .bos = 1,
          .eos = 2};
}

// Mistral 7B (Jiang et al. 2023): a window in every layer.
Family mistral() {
  return {
      .type = "mistral",
      .maker = "MistralForCausalLM",
      .model = llama_model(),
      .keys = llama_keys({.max_length = 131072, .kv_heads = 8}) +
              Keys{head_width(), rope(), window(4096), number("rms_norm_eps", member::eps, 1e-6),
                   activation("hidden_act", Gate::yes, "silu"), flag("tie_word_embeddings", member::tie_output, false)},
      .names = fixed(llama_names()),
      .prefix = "model.",
      .bos = 1,
      .eos = 2};
}

// Mixtral 8x7B (Jiang et al. 2024): experts.
Family mixtral() {
  Family f = mistral();
  f.type = "mixtral";
  f.maker = "MixtralForCausalLM";
  f.model.decoder.experts = 8;
  f.keys = llama_keys({.max_length = 131072, .kv_heads = 8}) +
           Keys{head_width(),
                rope({.usual_theta = 1e6}),
                window(0),
                number("rms_norm_eps", member::eps, 1e-5),
                activation("hidden_act", Gate::yes, "silu"),
                integer("num_local_experts", member::experts, 8),
                integer("num_experts_per_tok", member::experts_chosen, 2),
                flag("tie_word_embeddings", member::tie_output, false)};
  f.names = fixed(
      "ffn.router -> block_sparse_moe.gate, ffn.experts.([0-9]+).gate -> block_sparse_moe.experts.$1.w1, "
      "ffn.experts.([0-9]+).up -> block_sparse_moe.experts.$1.w3, "
      "ffn.experts.([0-9]+).down -> block_sparse_moe.experts.$1.w2, " +
      llama_names());
  return f;
}

namespace {

// Qwen's windows begin behind some first layers.
WindowedLayers last_layers() {
  return {.has_switch = true, .is_windowed = [](const ConfigKeys& keys, const LanguageModelConfig&, int layer) {
            return layer >= keys.integer("max_window_layers", 28);
          }};
}

}  // namespace

// Qwen 2 and 2.5 (2024): biases of queries, keys and values.
Family qwen2() {
  Family f = llama();
  f.type = "qwen2";
  f.maker = "Qwen2ForCausalLM";
  f.model.decoder.qkv_bias = true;
  f.keys = llama_keys({.max_length = 32768}) + Keys{head_width(),
                                                    rope(),
                                                    windows_by_layer(last_layers()),
                                                    number("rms_norm_eps", member::eps, 1e-6),
                                                    activation("hidden_act", Gate::yes, "silu"),
                                                    flag("tie_word_embeddings", member::tie_output, false)};
  f.bos = f.eos = {};
  return f;
}

// Qwen 3 (2025): norms of queries and keys, and heads of their own width.
Family qwen3() {
  Family f = qwen2();
  f.type = "qwen3";
  f.maker = "Qwen3ForCausalLM";
  f.model.decoder.qkv_bias = {};
  f.model.decoder.qk_norm = QkNorm::head;
  f.keys =
      llama_keys({.max_length = 32768}) + Keys{head_width(128),
                                               rope(),
                                               windows_by_layer(last_layers()),
                                               number("rms_norm_eps", member::eps, 1e-6),
                                               activation("hidden_act", Gate::yes, "silu"),
                                               biases("attention_bias", {member::qkv_bias, member::out_bias}, false),
                                               flag("tie_word_embeddings", member::tie_output, false)};
  return f;
}

// SmolLM 3 (2025): some layers without rotary positions, which are those with a window, if there are windows.
Family smollm3() {
  const auto has_no_rope = [](const ConfigKeys&, const LanguageModelConfig& m, int layer) {
    return m.decoder.attention(layer).positions == LayerPositions::none;
  };
  const WindowedLayers windows{.has_switch = true, .usual_window = 0, .is_windowed = has_no_rope};
  Family f = llama();
  f.type = "smollm3";
  f.maker = "SmolLM3ForCausalLM";
  f.keys = llama_keys({.max_length = 32768, .kv_heads = 4}) +
           Keys{head_width(),
                rope({.usual_theta = 2e6}),
                layers_without_rope(),
                windows_by_layer(windows),
                number("rms_norm_eps", member::eps, 1e-6),
                activation("hidden_act", Gate::yes, "silu"),
                biases("attention_bias", {member::qkv_bias, member::out_bias}, false),
                biases("mlp_bias", {member::ffn_bias}, false),
                flag("tie_word_embeddings", member::tie_output, true)};
  f.bos = 128000;
  f.eos = 128001;
  return f;
}

namespace {

// What products of queries and keys are multiplied by, which here need not be said.
Key attention_multiplier() {
  Key key = positive("attention_multiplier", member::attention_scale, 1);
  key.write = [](nlohmann::json& all, const LanguageModelConfig& m) {
    const double usual = 1 / std::sqrt(static_cast<double>(m.layer.head_columns()));
    all["attention_multiplier"] = m.decoder.attention_scale > 0 ? m.decoder.attention_scale : usual;
  };
  return key;
}

}  // namespace

// Granite 3 (2024): multipliers.
Family granite() {
  Family f = llama();
  f.type = "granite";
  f.maker = "GraniteForCausalLM";
  f.keys = f.keys + Keys{number("embedding_multiplier", member::embedding_scale, 1),
                         number("residual_multiplier", member::residual_scale, 1), attention_multiplier(),
                         inverse("logits_scaling", member::output_scale, 1)};
  return f;
}

// OLMo 2 (2025): norms behind the sublayers, and of all queries and keys of a row.
Family olmo2() {
  Family f = llama();
  f.type = "olmo2";
  f.maker = "Olmo2ForCausalLM";
  f.model.decoder.norm_place = NormPlace::after;
  f.model.decoder.qk_norm = QkNorm::width;
  f.keys = llama_keys() + Keys{head_width(),
                               rope(),
                               number("rms_norm_eps", member::eps, 1e-5),
                               activation("hidden_act", Gate::yes, "silu"),
                               biases("attention_bias", {member::qkv_bias, member::out_bias}, false),
                               flag("tie_word_embeddings", member::tie_output, false)};
  f.names = fixed("norm1 -> post_attention_layernorm, norm2 -> post_feedforward_layernorm, " + llama_names());
  f.bos = {};
  f.eos = 50279;
  return f;
}

// Phi-3 and Phi-4 mini (2024): stacked projections.
Family phi3() {
  Family f = llama();
  f.type = "phi3";
  f.maker = "Phi3ForCausalLM";
  f.keys = llama_keys({.max_length = 4096}) + Keys{head_width(),
                                                   rope({.is_partial = true}),
                                                   window(0),
                                                   ignored("original_max_position_embeddings"),
                                                   ignored("auto_map"),
                                                   number("rms_norm_eps", member::eps, 1e-5),
                                                   activation("hidden_act", Gate::yes, "silu"),
                                                   flag("tie_word_embeddings", member::tie_output, false)};
  f.names = fixed("self_attn.in_proj -> self_attn.qkv_proj, ffn.(gate|up) -> mlp.gate_up_proj, " + llama_names());
  f.is_gate_stacked = true;
  f.eos = 32000;
  return f;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
