// config.json of each family, a key at a time: what keys mean, those of earlier versions and of real models, and what
// is refused.
#include "models/family_configs.h"

#include <seppo/autograd/core/check.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace seppo;
using namespace test::families;

BOOST_AUTO_TEST_CASE(what_is_not_known_is_refused_by_name) {
  const test::Folder folder("families");
  for_each_family([&](Architecture architecture) {
    for (const char* key : {"nobody_knows", "quantization_config", "qk_norm", "vision_config"}) {
      nlohmann::json config = config_of(architecture);
      config[key] = {{"bits", 4}};
      const auto names_it = [&](const FormatError& e) {
        return std::string(e.what()).find("'" + std::string(key) + "'") != std::string::npos;
      };
      BOOST_CHECK_EXCEPTION(read(folder, config), FormatError, names_it);
    }
  });
  const std::tuple<Architecture, const char*, nlohmann::json> refused[] = {
      {Architecture::falcon, "alibi", true},
      {Architecture::falcon, "num_ln_in_parallel_attn", "x"},
      {Architecture::cohere, "use_qk_norm", true},
      {Architecture::stablelm, "qk_layernorm", true},
      {Architecture::opt, "do_layer_norm_before", false},
      {Architecture::opt, "_remove_final_layer_norm", true},
      {Architecture::opt, "word_embed_proj_dim", 8},
      {Architecture::bloom, "apply_residual_connection_post_layernorm", true},
      {Architecture::bloom, "n_inner", 100},
      {Architecture::gpt2, "scale_attn_by_inverse_layer_idx", true},
      {Architecture::gemma, "use_bidirectional_attention", true},
      {Architecture::gemma2, "query_pre_attn_scalar", 0},
      {Architecture::gemma2, "final_logit_softcapping", -1},
      {Architecture::granite, "logits_scaling", 0},
      {Architecture::granite, "attention_multiplier", -1},
      {Architecture::mistral, "sliding_window", 0},
      {Architecture::qwen2, "layer_types", {"full_attention"}},
      {Architecture::qwen2, "layer_types", {"full_attention", "sliding_attention"}},  // there is no window
      {Architecture::qwen2, "layer_types", {"full_attention", "chunked_attention"}},
      {Architecture::smollm3, "no_rope_layers", {1, 2}},
      {Architecture::llama, "num_hidden_layers", 1 << 30},
      {Architecture::mistral, "num_hidden_layers", 1 << 30},
      {Architecture::mixtral, "num_experts_per_tok", -1},
      {Architecture::llama, "partial_rotary_factor", 0.5},
      {Architecture::phi3, "rope_scaling", {{"type", "longrope"}}}};
  for (const auto& [architecture, key, value] : refused) BOOST_TEST_CONTEXT(key << ' ' << value) {
      nlohmann::json config = config_of(architecture);
      config[key] = value;
      BOOST_CHECK_THROW(read(folder, config), FormatError);
    }
}

// Names of keys in files of earlier versions, and what missing keys mean.
BOOST_AUTO_TEST_CASE(older_names_and_missing_keys) {
  const test::Folder folder("families");
  const auto changed = [&](Architecture architecture, const nlohmann::json& other, std::vector<const char*> missing) {
    nlohmann::json config = config_of(architecture);
    for (const char* key : missing) config.erase(key);
    config.update(other.is_null() ? nlohmann::json::object() : other);
    return read(folder, config).model;
  };
  LanguageModelConfig m = changed(Architecture::bloom, {{"n_embed", 24}, {"num_attention_heads", 3}},
                                  {"hidden_size", "n_head", "seq_length", "n_inner"});
  BOOST_CHECK(m.layer.d_model == 24 && m.layer.n_heads == 3 && m.layer.d_ff == 96 && m.max_length == 2048);
  m = changed(Architecture::gpt_neox, {{"partial_rotary_factor", 0.5}, {"rope_theta", 7}},
              {"rotary_pct", "rotary_emb_base", "rope_parameters"});
  BOOST_CHECK(m.decoder.rope.share == 0.5 && m.rope_theta == 7);
  m = changed(Architecture::gemma, {{"hidden_act", "gelu"}, {"hidden_activation", "gelu_pytorch_tanh"}}, {"head_dim"});
  BOOST_CHECK(m.layer.activation == Activation::geglu_tanh && m.layer.head_width == 256);
  m = changed(Architecture::gemma2, {{"sliding_window", 5}}, {"layer_types"});
  BOOST_CHECK(m.decoder.attention(0).window == 5 && m.decoder.attention(1).window == 0);
  m = changed(Architecture::gemma3_text, {{"sliding_window", 5}, {"sliding_window_pattern", 2}}, {"layer_types"});
  BOOST_CHECK(m.decoder.attention(0).window == 5 && m.decoder.attention(0).positions == LayerPositions::local);
  BOOST_CHECK(m.decoder.attention(1).window == 0 && m.decoder.attention(1).positions == LayerPositions::common);
  m = changed(Architecture::qwen2, {{"sliding_window", 5}, {"use_sliding_window", true}, {"max_window_layers", 1}},
              {"layer_types"});
  BOOST_CHECK(m.decoder.attention(0).window == 0 && m.decoder.attention(1).window == 5);
  // As Qwen2's own files have it: a number, and no windows.
  m = changed(Architecture::qwen2, {{"sliding_window", 5}, {"use_sliding_window", false}, {"max_window_layers", 1}},
              {"layer_types"});
  BOOST_CHECK(m.decoder.attention(0).window == 0 && m.decoder.attention(1).window == 0);
  m = changed(Architecture::smollm3, {{"no_rope_layer_interval", 2}}, {"no_rope_layers"});
  BOOST_CHECK(m.decoder.attention(0).positions == LayerPositions::common);
  BOOST_CHECK(m.decoder.attention(1).positions == LayerPositions::none);
  const nlohmann::json first{{"no_rope_layers", {0, 1}}, {"use_sliding_window", true}};
  m = changed(Architecture::smollm3, first, {"layer_types", "sliding_window"});
  BOOST_CHECK(m.decoder.attention(0).window == 0 && m.decoder.attention(1).window == 0);
  nlohmann::json with_window = first;
  with_window["sliding_window"] = 5;
  m = changed(Architecture::smollm3, with_window, {"layer_types"});
  BOOST_CHECK(m.decoder.attention(0).window == 5 && m.decoder.attention(1).window == 0);
  m = changed(Architecture::gemma2, {}, {"attn_logit_softcapping", "final_logit_softcapping"});
  BOOST_CHECK(m.decoder.attention_softcap == 50 && m.decoder.output_softcap == 30);
  m = changed(Architecture::gemma2, {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}}, {});
  BOOST_CHECK(m.decoder.attention_softcap == 0 && m.decoder.output_softcap == 0);
  BOOST_CHECK_EQUAL(changed(Architecture::mistral, {}, {"sliding_window"}).decoder.attention(1).window, 4096);
  m = changed(Architecture::falcon, {{"new_decoder_architecture", true}, {"num_kv_heads", 2}},
              {"num_ln_in_parallel_attn"});
  BOOST_CHECK(m.decoder.sublayers == Sublayers::side_by_side && m.layer.n_kv_heads == 2);
}

// What a family has no key for, or has one for that is no default, is said or refused.
BOOST_AUTO_TEST_CASE(models_without_a_default_of_their_family) {
  const auto written = [](Architecture architecture, auto change) {
    HfConfig config{.architecture = architecture,
                    .model = {.vocabulary = 11, .layer = {.d_model = 16, .n_heads = 4, .d_ff = 64}, .n_layers = 1}};
    set_architecture(architecture, config.model);
    change(config.model);
    return to_json(config);
  };
  const auto has_wide_heads = [](LanguageModelConfig& m) { m.layer.head_width = 9; };
  const auto is_wide = [](LanguageModelConfig& m) { m.layer.d_ff = 32; };
  BOOST_CHECK_CLOSE(written(Architecture::granite, has_wide_heads).at("attention_multiplier").get<double>(), 1 / 3.0,
                    1e-9);
  BOOST_CHECK_EQUAL(written(Architecture::bloom, [](LanguageModelConfig&) {}).at("n_inner"), 64);
  BOOST_CHECK_THROW(written(Architecture::bloom, is_wide), ArgumentError);
}

// Real models have keys that no class of transformers reads.
BOOST_AUTO_TEST_CASE(keys_of_real_models_without_effect) {
  const test::Folder folder("families");
  const std::tuple<Architecture, const char*, nlohmann::json> keys[] = {
      {Architecture::bloom, "offset_alibi", 100},
      {Architecture::opt, "activation_dropout", 0.0},
      {Architecture::gemma2, "sliding_window_size", 4096},
      {Architecture::gpt_neox, "attention_probs_dropout_prob", 0},
      {Architecture::phi, "auto_map", {{"AutoConfig", "configuration_phi.PhiConfig"}}},
      {Architecture::llama, "max_sequence_length", 2048},
      {Architecture::smollm3, "max_window_layers", 28}};
  for (const auto& [architecture, key, value] : keys) BOOST_TEST_CONTEXT(key) {
      nlohmann::json config = config_of(architecture);
      const nlohmann::json without = to_json(read(folder, config));
      config[key] = value;
      BOOST_CHECK_EQUAL(to_json(read(folder, config)), without);
    }
  for (const Architecture architecture : {Architecture::llama, Architecture::gpt2, Architecture::bloom}) {
    nlohmann::json config = config_of(architecture);
    config["is_causal"] = true;
    BOOST_CHECK_NO_THROW(read(folder, config));
    config["is_causal"] = false;  // a model that sees what follows
    BOOST_CHECK_THROW(read(folder, config), FormatError);
  }
}

// The first files of Gemma say "gelu" and mean its approximation; later ones have another key.
BOOST_AUTO_TEST_CASE(activations_of_gemma) {
  const test::Folder folder("families");
  const auto activation = [&](Architecture architecture, const nlohmann::json& keys) {
    nlohmann::json config = config_of(architecture);
    config.erase("hidden_act");
    config.erase("hidden_activation");
    config.update(keys);
    const HfConfig once = read(folder, config);
    const HfConfig twice = read(folder, to_json(once));
    BOOST_CHECK(once.model.layer.activation == twice.model.layer.activation);
    return once.model.layer.activation;
  };
  using enum Activation;
  BOOST_CHECK(activation(Architecture::gemma, {{"hidden_act", "gelu"}, {"hidden_activation", nullptr}}) == geglu_tanh);
  BOOST_CHECK(activation(Architecture::gemma, {{"hidden_act", "gelu_python"}}) == geglu);
  BOOST_CHECK(activation(Architecture::gemma, {{"hidden_act", "silu"}}) == swiglu);
  for (const Architecture architecture : {Architecture::gemma2, Architecture::gemma3_text}) {
    BOOST_CHECK(activation(architecture, {{"hidden_act", "gelu"}}) == geglu_tanh);
    BOOST_CHECK(activation(architecture, {{"hidden_activation", "gelu"}}) == geglu);
  }
}

BOOST_AUTO_TEST_CASE(scaled_positions_are_read_in_both_forms) {
  const test::Folder folder("families");
  nlohmann::json config = config_of(Architecture::llama);
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 3}};
  BOOST_CHECK(
      (read(folder, config).model.decoder.rope.scaling == RotaryScaling{.kind = RotaryScale::linear, .factor = 3}));
  // It stands for all of the other key, as where somebody adds it to what transformers has written.
  config["rope_theta"] = 700;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500}};
  const HfConfig added = read(folder, config);
  BOOST_CHECK((added.model.decoder.rope.scaling == RotaryScaling{.kind = RotaryScale::linear, .factor = 3}));
  BOOST_CHECK_EQUAL(added.model.rope_theta, 700);
  for (const nlohmann::json& none : {nlohmann::json(), nlohmann::json::object(), nlohmann::json(false)}) {
    config["rope_scaling"] = none;
    BOOST_CHECK_EQUAL(read(folder, config).model.rope_theta, 500);
  }
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 4}, {"rope_theta", 500}};
  const HfConfig yarn = read(folder, config);
  BOOST_CHECK_EQUAL(yarn.model.rope_theta, 500);
  BOOST_CHECK((yarn.model.decoder.rope.scaling == RotaryScaling{.kind = RotaryScale::yarn,
                                                                .factor = 4,
                                                                .original_length = 16,
                                                                .slow = 1,
                                                                .fast = 32,
                                                                .length = yarn_length(4)}));
  BOOST_CHECK(read(folder, to_json(yarn)).model.decoder.rope == yarn.model.decoder.rope);
  HfConfig scaled = yarn;  // what is written is read, away from the defaults
  for (const RotaryScale kind : {RotaryScale::linear, RotaryScale::llama3, RotaryScale::yarn}) {
    const bool is_yarn = kind == RotaryScale::yarn;
    RotaryScaling& usual = scaled.model.decoder.rope.scaling = {.kind = kind, .factor = 3};
    if (kind != RotaryScale::linear) usual = {kind, 3, 32, 2, 20, !is_yarn, is_yarn ? 0.7 : 1};
    BOOST_CHECK(read(folder, to_json(scaled)).model.decoder.rope == scaled.model.decoder.rope);
  }
  for (const double all_dims : {0.0, 1.0, 0.7}) {  // DeepSeek's two, which count only together
    config["rope_parameters"] = {
        {"rope_type", "yarn"}, {"factor", 40}, {"mscale", 0.5}, {"mscale_all_dim", all_dims}, {"rope_theta", 500}};
    const auto length = [](double scale) { return 0.1 * scale * std::log(40) + 1; };
    const double expected = all_dims == 0 ? length(1) : length(0.5) / length(all_dims);
    BOOST_CHECK_CLOSE(read(folder, config).model.decoder.rope.scaling.length, expected, 1e-9);
  }
  config["rope_parameters"] = {
      {"rope_type", "dynamic"}, {"factor", 4}, {"original_max_position_embeddings", 8}, {"rope_theta", 500}};
  BOOST_CHECK_THROW(read(folder, config), FormatError);
}
