// Families whose attention and feed-forward network stand side by side, at least in some of their models.
#include "family.h"
#include "rope_keys.h"

#include "../../../autograd/core/check.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

LanguageModelConfig model_of(Sublayers sublayers, Activation activation, bool has_biases) {
  LanguageModelConfig m = llama_model();
  m.layer.norm_kind = NormKind::layer;
  m.layer.activation = activation;
  m.layer.bias = has_biases;
  m.decoder.sublayers = sublayers;
  return m;
}

// A flag that says whether the sublayers stand so, or one after another.
Key parallel(const std::string& name, Sublayers form, bool fallback) {
  return {[=](const ConfigKeys& keys, LanguageModelConfig& m) {
            m.decoder.sublayers = keys.flag(name, fallback) ? form : Sublayers::one_after_another;
          },
          [=](nlohmann::json& all, const LanguageModelConfig& m) {
            all[name] = m.decoder.sublayers != Sublayers::one_after_another;
          }};
}

// Falcon's heads of keys: one, unless 'multi_query' is false or the decoder is the new one.
Key falcon_kv_heads() {
  const auto read = [](const ConfigKeys& keys, LanguageModelConfig& m) {
    const bool is_new = keys.flag("new_decoder_architecture", false);
    const bool is_one = keys.flag("multi_query", true) && !is_new;
    const int said = keys.integer("num_kv_heads", m.layer.n_heads);
    m.layer.n_kv_heads = is_one ? 1 : said;
  };
  const auto write = [](nlohmann::json& all, const LanguageModelConfig& m) {
    const bool is_new = m.decoder.sublayers == Sublayers::side_by_side;
    const int heads = m.layer.kv_heads();
    all["multi_query"] = heads == 1 && !is_new;
    all["num_kv_heads"] = heads == 1 && !is_new ? m.layer.n_heads : heads;
  };
  return {read, write};
}

// Falcon's forms: the new decoder's sublayers have two norms, the old one's one, and then they may also follow each
// other.
Key falcon_sublayers() {
  const auto read = [](const ConfigKeys& keys, LanguageModelConfig& m) {
    const bool is_new = keys.flag("new_decoder_architecture", false);
    const bool is_parallel = keys.flag("parallel_attn", true);
    const int norms = keys.integer("num_ln_in_parallel_attn", is_new ? 2 : 1);
    const bool has_two = is_new && norms == 2;
    check<FormatError>(!is_new || is_parallel, keys.name(),
                       ": 'parallel_attn': false is not supported with 'new_decoder_architecture'");
    m.decoder.sublayers = is_parallel ? Sublayers::side_by_side_one_norm : Sublayers::one_after_another;
    if (has_two) m.decoder.sublayers = Sublayers::side_by_side;
  };
  const auto write = [](nlohmann::json& all, const LanguageModelConfig& m) {
    const bool has_two = m.decoder.sublayers == Sublayers::side_by_side;
    const int heads = m.layer.n_kv_heads;
    const bool is_grouped = heads > 1 && heads < m.layer.n_heads;  // which only the new decoder has
    all["new_decoder_architecture"] = has_two || is_grouped;
    all["parallel_attn"] = m.decoder.sublayers != Sublayers::one_after_another;
    all["num_ln_in_parallel_attn"] = has_two ? 2 : 1;
  };
  return {read, write};
}

LanguageModelConfig falcon_model() {
  LanguageModelConfig m = model_of(Sublayers::side_by_side_one_norm, Activation::gelu, false);
  m.decoder.norm_bias = true;
  return m;
}

std::string falcon_names(const LanguageModelConfig& m) {
  const bool has_two = m.decoder.sublayers == Sublayers::side_by_side;
  const std::string norms =
      has_two ? "norm1 -> ln_attn, norm2 -> ln_mlp, " : "norm1 -> input_layernorm, norm2 -> post_attention_layernorm, ";
  return norms +
         "embedding -> transformer.word_embeddings, layers.norm -> transformer.ln_f, layers -> transformer.h, "
         "self_attn.in_proj -> self_attention.query_key_value, self_attn.out_proj -> self_attention.dense, "
         "ffn.up -> mlp.dense_h_to_4h, ffn.down -> mlp.dense_4h_to_h, output -> lm_head";
}

}  // namespace

// GPT-NeoX and Pythia (Black et al. 2022; Biderman et al. 2023): two norms, and a share of each head is rotated.
Family gpt_neox() {
  return {.type = "gpt_neox",
          .maker = "GPTNeoXForCausalLM",
          .model = model_of(Sublayers::side_by_side, Activation::gelu, true),
          .keys = {integer("vocab_size", member::vocabulary), integer("hidden_size", member::d_model),
                   integer("intermediate_size", member::d_ff), integer("num_hidden_layers", member::n_layers),
                   integer("num_attention_heads", member::n_heads),
                   integer("max_position_embeddings", member::max_length, 2048),
                   rope({.theta = "rotary_emb_base|rope_theta",
                         .share = "rotary_pct|partial_rotary_factor",
                         .usual_share = 0.25,
                         .is_partial = true}),
                   number("layer_norm_eps", member::eps, 1e-5), activation("hidden_act", Gate::no, "gelu"),
                   parallel("use_parallel_residual", Sublayers::side_by_side, true),
                   biases("attention_bias", {member::qkv_bias, member::out_bias}, true),
                   flag("tie_word_embeddings", member::tie_output, false)},
          .names = fixed("embedding -> gpt_neox.embed_in, layers.norm -> gpt_neox.final_layer_norm, "
                         "layers -> gpt_neox.layers, norm1 -> input_layernorm, norm2 -> post_attention_layernorm, "
                         "self_attn.in_proj -> attention.query_key_value, self_attn.out_proj -> attention.dense, "
                         "ffn.up -> mlp.dense_h_to_4h, ffn.down -> mlp.dense_4h_to_h, output -> embed_out"),
          .prefix = "gpt_neox.",
          .qkv = QkvTensors::by_kv_head,
          .bos = 0,
          .eos = 2};
}

// Phi-1 to Phi-2 (Gunasekar et al. 2023): one norm, and an output layer with biases.
Family phi() {
  Family f = llama();
  f.type = "phi";
  f.maker = "PhiForCausalLM";
  f.model = model_of(Sublayers::side_by_side_one_norm, Activation::gelu_tanh, true);
  f.model.decoder.output_bias = true;
  f.keys = llama_keys() +
           Keys{rope({.usual_share = 0.5, .is_partial = true}),         number("layer_norm_eps", member::eps, 1e-5),
                activation("hidden_act", Gate::no, "gelu_new"),         qk_norms("qk_layernorm"),
                flag("tie_word_embeddings", member::tie_output, false), ignored("auto_map")};
  f.names = fixed(
      "layers.norm -> model.final_layernorm, q_norm -> q_layernorm, k_norm -> k_layernorm, "
      "self_attn.out_proj -> self_attn.dense, ffn.up -> mlp.fc1, ffn.down -> mlp.fc2, " +
      llama_names());
  return f;
}

// StableLM (2024): layer norms around LLaMA's layers, or side by side.
Family stablelm() {
  Family f = llama();
  f.type = "stablelm";
  f.maker = "StableLmForCausalLM";
  f.model = model_of(Sublayers::one_after_another, Activation::swiglu, false);
  f.model.decoder.norm_bias = true;
  f.keys = llama_keys({.max_length = 4096}) +
           Keys{rope({.usual_share = 0.25, .is_partial = true}),
                number("layer_norm_eps", member::eps, 1e-5),
                activation("hidden_act", Gate::yes, "silu"),
                biases("use_qkv_bias", {member::qkv_bias}, false),
                only("qk_layernorm", {false}),
                parallel("use_parallel_residual", Sublayers::side_by_side_one_norm, false),
                flag("tie_word_embeddings", member::tie_output, false)};
  f.bos = f.eos = 0;
  return f;
}

// Falcon (Almazrouei et al. 2023).
Family falcon() {
  return {
      .type = "falcon",
      .maker = "FalconForCausalLM",
      .model = falcon_model(),
      .keys = {integer("vocab_size", member::vocabulary), integer("hidden_size", member::d_model),
               inner_width("ffn_hidden_size", "hidden_size"), integer("num_hidden_layers|n_layer", member::n_layers),
               integer("num_attention_heads|n_head", member::n_heads), falcon_kv_heads(), falcon_sublayers(),
               integer("max_position_embeddings", member::max_length, 2048), rope(),
               number("layer_norm_epsilon", member::eps, 1e-5), activation("activation", Gate::no, "gelu"),
               only("alibi", {false}), ignored("auto_map"), only("apply_residual_connection_post_layernorm", {false}),
               biases("bias", {member::qkv_bias, member::out_bias, member::ffn_bias}, false),
               flag("tie_word_embeddings", member::tie_output, true)},
      .names = falcon_names,
      .prefix = "transformer.",
      .qkv = QkvTensors::by_kv_head,
      .bos = 11,
      .eos = 11};
}

// Command R (Cohere, 2024): norms without biases, pairs of neighbouring columns, scaled scores.
Family cohere() {
  Family f = llama();
  f.type = "cohere";
  f.maker = "CohereForCausalLM";
  f.model = model_of(Sublayers::side_by_side_one_norm, Activation::swiglu, false);
  f.model.positions = Positions::rotary;
  f.keys =
      llama_keys({.max_length = 8192}) + Keys{head_width(),
                                              rope({.usual_theta = 5e5}),
                                              number("layer_norm_eps", member::eps, 1e-5),
                                              activation("hidden_act", Gate::yes, "silu"),
                                              number("logit_scale", member::output_scale, 0.0625),
                                              only("use_qk_norm", {false}),
                                              biases("attention_bias", {member::qkv_bias, member::out_bias}, false),
                                              flag("tie_word_embeddings", member::tie_output, true)};
  f.bos = 5;
  f.eos = 255001;
  return f;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
