// GPT-2 (Radford et al. 2019) and other families with layer norms and learned positions, or none: OPT, BLOOM.
#include "family.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

LanguageModelConfig gpt2_model() {
  return {.layer = {.dropout = 0, .norm = Norm::pre, .activation = Activation::gelu_tanh, .bias = true},
          .positions = Positions::learned};
}

}  // namespace

Family gpt2() {
  return {
      .type = "gpt2",
      .maker = "GPT2LMHeadModel",
      .model = gpt2_model(),
      .keys = {activation("activation_function", Gate::no, "gelu_new"), only("scale_attn_weights", {true}),
               only("scale_attn_by_inverse_layer_idx", {false}), only("add_cross_attention", {false}),
               integer("vocab_size", member::vocabulary), integer("n_embd", member::d_model),
               inner_width("n_inner", "n_embd"), integer("n_layer", member::n_layers),
               integer("n_head", member::n_heads), integer("n_positions", member::max_length, 1024),
               number("layer_norm_epsilon", member::eps, 1e-5), flag("tie_word_embeddings", member::tie_output, true)},
      .names = fixed(gpt2_names("transformer.")),
      .prefix = "transformer.",
      .is_transposed = true,
      .bos = 50256,
      .eos = 50256};
}

// OPT (Zhang et al. 2022): the table of positions begins with two rows of none.
Family opt() {
  Family f = gpt2();
  f.type = "opt";
  f.maker = "OPTForCausalLM";
  f.model.layer.activation = Activation::relu;
  f.model.decoder.position_offset = 2;
  f.keys = {integer("vocab_size", member::vocabulary),
            integer("hidden_size", member::d_model),
            as_wide_as_the_model("word_embed_proj_dim"),
            integer("ffn_dim", member::d_ff),
            integer("num_hidden_layers", member::n_layers),
            integer("num_attention_heads", member::n_heads),
            integer("max_position_embeddings", member::max_length, 2048),
            activation("activation_function", Gate::no, "relu"),
            only("do_layer_norm_before", {true}),
            only("layer_norm_elementwise_affine", {true}),
            only("_remove_final_layer_norm", {false}),
            biases("enable_bias", {member::qkv_bias, member::out_bias, member::ffn_bias}, true),
            flag("tie_word_embeddings", member::tie_output, true)};
  f.names = fixed(
      "embedding -> model.decoder.embed_tokens, positions -> model.decoder.embed_positions, "
      "layers.norm -> model.decoder.final_layer_norm, layers -> model.decoder.layers, "
      "norm1 -> self_attn_layer_norm, norm2 -> final_layer_norm, "
      "self_attn.in_proj -> self_attn.{q,k,v}_proj, ffn.up -> fc1, ffn.down -> fc2, output -> lm_head");
  f.prefix = "model.";
  f.is_transposed = false;
  f.bos = f.eos = 2;
  return f;
}

// BLOOM (BigScience 2022): ALiBi, and a norm behind the embedding.
Family bloom() {
  Family f = gpt2();
  f.type = "bloom";
  f.maker = "BloomForCausalLM";
  f.model.positions = Positions::alibi;
  f.model.decoder.embedding_norm = true;
  f.keys = {integer("vocab_size", member::vocabulary),
            integer("hidden_size|n_embed", member::d_model),
            four_times_as_wide("n_inner", "hidden_size"),
            integer("n_layer|num_hidden_layers", member::n_layers),
            integer("n_head|num_attention_heads", member::n_heads),
            integer("seq_length", member::max_length, 2048),
            number("layer_norm_epsilon", member::eps, 1e-5),
            only("apply_residual_connection_post_layernorm", {false}),
            flag("tie_word_embeddings", member::tie_output, true)};
  f.names = fixed(
      "embedding_norm -> transformer.word_embeddings_layernorm, embedding -> transformer.word_embeddings, "
      "layers.norm -> transformer.ln_f, layers -> transformer.h, norm1 -> input_layernorm, "
      "norm2 -> post_attention_layernorm, self_attn.in_proj -> self_attention.query_key_value, "
      "self_attn.out_proj -> self_attention.dense, ffn.up -> mlp.dense_h_to_4h, "
      "ffn.down -> mlp.dense_4h_to_h, output -> lm_head");
  f.qkv = QkvTensors::by_kv_head;
  f.is_transposed = false;
  f.bos = 1;
  f.eos = 2;
  return f;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
