// Gemma 1, 2 and 3 (Gemma Team 2024, 2024, 2025): norms of 1 + weight, and an embedding scaled by sqrt(d_model).
#include "family.h"
#include "layer_keys.h"
#include "rope_keys.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

Keys gemma_keys(const UsualSizes& usual) {
  return llama_keys(usual) + Keys{head_width(256), number("rms_norm_eps", member::eps, 1e-6),
                                  biases("attention_bias", {member::qkv_bias, member::out_bias}, false),
                                  only("use_bidirectional_attention", {nullptr, false}),
                                  flag("tie_word_embeddings", member::tie_output, true)};
}

// The files of Gemma 1 say "gelu" and mean its tanh approximation.
Key first_activation() {
  Key key = activation("hidden_act", Gate::yes, "gelu_pytorch_tanh");
  key.read = [read = key.read](const ConfigKeys& keys, LanguageModelConfig& m) {
    read(keys, m);
    if (keys.has("hidden_act") && *keys.find("hidden_act") == "gelu") m.layer.activation = Activation::geglu_tanh;
  };
  key.write = [write = key.write](nlohmann::json& all, const LanguageModelConfig& m) {
    write(all, m);
    if (all["hidden_act"] == "gelu") all["hidden_act"] = "gelu_python";  // another name of the exact one
  };
  return key;
}

Keys later_activation() {
  return {activation("hidden_activation", Gate::yes, "gelu_pytorch_tanh"), ignored("hidden_act")};
}

struct UsualCaps {
  double attention = 0, output = 0;  // 0: none
};

Keys capped(const UsualCaps& usual) {
  return {query_scalar("query_pre_attn_scalar", 256),
          cap("attn_logit_softcapping", member::attention_softcap, usual.attention),
          cap("final_logit_softcapping", member::output_softcap, usual.output)};
}

std::string names_of_four_norms() {
  return "post_norm1 -> post_attention_layernorm, norm2 -> pre_feedforward_layernorm, "
         "post_norm2 -> post_feedforward_layernorm, " +
         llama_names();
}

}  // namespace

Family gemma() {
  Family f = llama();
  f.type = "gemma";
  f.maker = "GemmaForCausalLM";
  f.model.layer.activation = Activation::geglu_tanh;
  f.model.decoder.norm_is_offset = true;
  f.model.decoder.is_embedding_scaled = true;
  f.keys = gemma_keys({.max_length = 8192}) +
           Keys{first_activation(), only("hidden_activation", {nullptr, "gelu_pytorch_tanh"}), rope()};
  f.bos = 2;
  f.eos = 1;
  return f;
}

// Gemma 2: norms before and after, windows in every second layer, caps.
Family gemma2() {
  const WindowedLayers windows{
      .is_windowed = [](const ConfigKeys&, const LanguageModelConfig&, int layer) { return layer % 2 == 0; }};
  Family f = gemma();
  f.type = "gemma2";
  f.maker = "Gemma2ForCausalLM";
  f.model.decoder.norm_place = NormPlace::around;
  f.keys = gemma_keys({.max_length = 8192, .kv_heads = 4}) + Keys{rope(), windows_by_layer(windows)} +
           later_activation() + capped({.attention = 50, .output = 30});
  f.names = fixed(names_of_four_norms());
  return f;
}

// Gemma 3: windows in five of six layers, with a base of their own, and norms of queries and keys.
Family gemma3() {
  const WindowedLayers windows{.is_windowed =
                                   [](const ConfigKeys& keys, const LanguageModelConfig&, int layer) {
                                     const char* const key = "sliding_window_pattern";
                                     return (layer + 1) % std::max(1, keys.integer(key, 6)) != 0;
                                   },
                               .windowed = LayerPositions::local};
  Family f = gemma2();
  f.type = "gemma3_text";
  f.maker = "Gemma3ForCausalLM";
  f.model.decoder.qk_norm = QkNorm::head;
  f.keys = gemma_keys({.max_length = 131072, .kv_heads = 4}) + Keys{two_ropes(), windows_by_layer(windows)} +
           later_activation() + capped({});
  return f;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
