// Which modules each option of the models reaches: all that it should, and no others.
#include "support/option_reach.h"

#include <seppo/models/bert.h>
#include <seppo/models/language_model.h>
#include <seppo/models/t5.h>
#include <seppo/models/transformer.h>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <utility>
#include <vector>

using namespace seppo;
using test::Reach;

namespace {

using Reaches = std::vector<Reach>;

Reaches joined(Reaches a, const Reaches& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Of two texts.
Ragged source() { return Ragged::of({{1, 4, 2, 8, 5}, {7, 0, 10, 3}}); }
Ragged target() { return Ragged::of({{2, 6, 9, 1, 1, 3, 7}, {5, 1, 0, 8}}); }

// No value is neutral, or equal to another one.
LayerConfig layer_config(Norm norm, NormKind kind) {
  return {.d_model = 16,
          .n_heads = 4,
          .d_ff = 6,
          .dropout = 0.3,
          .attention_dropout = 0.2,
          .norm = norm,
          .activation = Activation::gelu,
          .bias = true,
          .eps = 0.03,
          .n_kv_heads = 2,
          .norm_kind = kind,
          .head_width = 6};
}

TransformerConfig transformer_config(const LayerConfig& layer, Positions positions) {
  return {.src_vocabulary = 11,
          .tgt_vocabulary = 11,
          .layer = layer,
          .enc_layers = 2,
          .dec_layers = 2,
          .positions = positions,
          .max_length = 16,
          .rope_theta = 50};
}

void run_transformer(const TransformerConfig& c) {
  Parameters parameters(1);
  const Transformer model(parameters.root(), c);
  test::fill_by_name(parameters);
  model.logits(source(), target());
}

const Reaches kTransformer{
    {"src_vocabulary", ""},
    {"tgt_vocabulary", "output"},
    {"d_model", "?"},
    {"n_heads", "*_attn *_attn.in_proj *_attn.out_proj"},
    {"d_ff", "*.ffn.up *.ffn.down"},
    {"attention_dropout", "*_attn"},
    {"activation", "*.ffn *.ffn.up *.ffn.gate"},
    {"n_kv_heads", "*_attn *_attn.in_proj"},
    {"head_width", "*_attn *_attn.in_proj *_attn.out_proj"},
    {"attention_bias", "*_attn.in_proj *_attn.out_proj *.cross_attn"},
    {"positions", "*_embedding *.self_attn"},
    {"max_length", ""},  // longer texts are refused
    {"share_embeddings", "*embedding"},
    {"tie_output", "output tgt_embedding"},
    {"scale_embeddings", "*_embedding"},
};

}  // namespace

// "model" is the dropout of the embedded inputs, which belongs to no module.
BOOST_AUTO_TEST_CASE(transformers_with_post_norm) {
  const Reaches expected{{"dropout", "model *.norm?"},
                         {"norm", "*coder.? *coder.?.norm? *coder.norm"},
                         {"norm_kind", "*.norm?"},
                         {"eps", "*.norm?"},
                         {"enc_layers", "encoder.[23].*"},
                         {"dec_layers", "decoder.[23].*"},
                         {"bias", "*_attn.in_proj *_attn.out_proj *.cross_attn *.ffn.up *.ffn.down *.norm? output"},
                         {"rope_theta", ""}};
  test::check_reach(transformer_config(layer_config(Norm::post, NormKind::layer), Positions::sinusoid),
                    joined(kTransformer, expected), run_transformer);
}

BOOST_AUTO_TEST_CASE(transformers_with_pre_norm) {
  const Reaches expected{{"dropout", "model *coder.?"},
                         {"norm", "*coder.? *coder.?.norm? *coder.norm"},
                         {"norm_kind", "*.norm? *coder.norm"},
                         {"eps", "*.norm? *coder.norm"},
                         {"enc_layers", "encoder.[23] encoder.[23].*"},
                         {"dec_layers", "decoder.[23] decoder.[23].*"},
                         {"bias", "*_attn.in_proj *_attn.out_proj *.cross_attn *.ffn.up *.ffn.down output"},
                         {"rope_theta", "*.self_attn"}};
  test::check_reach(transformer_config(layer_config(Norm::pre, NormKind::rms), Positions::rotary),
                    joined(kTransformer, expected), run_transformer);
}

namespace {

// A language model with the options of its family. Enums and optional flags are whole numbers here.
struct Family {
  LanguageModelConfig model;
  int norm_place = 0, sublayers = 0, qk_norm = 0;
  int norm_bias = 1, qkv_bias = 1, out_bias = 1, ffn_bias = 1;
  int window = 0, layer_positions = 0;  // of all layers but the first

  void fields(ConfigVisitor& v) {
    model.fields(v);
    // This stops compiling when a member is added, which then needs a line below.
    auto& [place, order, is_offset, norms, qkv, out, ffn, output_bias, embedding_norm, position_offset, norm,
           attention_scale, attention_softcap, rope, local_rope_theta, attentions, is_embedding_scaled, embedding_scale,
           residual_scale, output_scale, output_softcap, experts, experts_chosen] = model.decoder;
    static_cast<void>(place), static_cast<void>(order), static_cast<void>(norms), static_cast<void>(qkv);
    static_cast<void>(out), static_cast<void>(ffn), static_cast<void>(norm), static_cast<void>(attentions);
    v("norm_place", norm_place, {0, 2});
    v("sublayers", sublayers, {0, 2});
    v("norm_is_offset", is_offset);
    v("norm_bias", norm_bias, {0, 1});
    v("qkv_bias", qkv_bias, {0, 1});
    v("out_bias", out_bias, {0, 1});
    v("ffn_bias", ffn_bias, {0, 1});
    v("output_bias", output_bias);
    v("embedding_norm", embedding_norm);
    v("position_offset", position_offset, {0, 8});
    v("qk_norm", qk_norm, {0, 2});
    v("attention_scale", attention_scale, {0, 2});
    v("attention_softcap", attention_softcap, {0, 2});
    v("rope_share", rope.share, {0.5, 1});
    v("rope_factor", rope.scaling.factor, {1, 8});
    v("local_rope_theta", local_rope_theta, {1, 1000});
    v("window", window, {0, 3});
    v("layer_positions", layer_positions, {0, 2});
    v("is_embedding_scaled", is_embedding_scaled);
    v("embedding_scale", embedding_scale, {1, 4});
    v("residual_scale", residual_scale, {0.1, 0.9});
    v("output_scale", output_scale, {0.1, 0.9});
    v("output_softcap", output_softcap, {0, 2});
    v("experts", experts, {0, 3});
    v("experts_chosen", experts_chosen, {1, 3});
  }

  LanguageModelConfig config() const {
    LanguageModelConfig c = model;
    DecoderConfig& d = c.decoder;
    d.norm_place = static_cast<NormPlace>(norm_place);
    d.sublayers = static_cast<Sublayers>(sublayers);
    d.qk_norm = static_cast<QkNorm>(qk_norm);
    d.norm_bias = norm_bias == 1;
    d.qkv_bias = qkv_bias == 1;
    d.out_bias = out_bias == 1;
    d.ffn_bias = ffn_bias == 1;
    const LayerAttention others{.window = window, .positions = static_cast<LayerPositions>(layer_positions)};
    d.attentions.assign(static_cast<std::size_t>(c.n_layers), others);
    d.attentions[0] = {};
    return c;
  }
};

void run_family(const Family& family) {
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), family.config());
  test::fill_by_name(parameters);
  model(source());
}

const Reaches kFamily{
    {"d_model", "?"},
    {"attention_dropout", "*.self_attn"},
    {"n_layers", "layers.[23] layers.[23].*"},
    {"bias", ""},  // the family says which maps have one
    {"attention_bias", ""},
    {"max_length", ""},
    {"tie_output", "output embedding"},
    {"qkv_bias", "*.in_proj"},
    {"out_bias", "*.out_proj"},
    {"attention_scale", "*.self_attn"},
    {"attention_softcap", "*.self_attn"},
    {"window", "layers.1.self_attn"},
    {"is_embedding_scaled", "embedding"},
    {"embedding_scale", "embedding"},
    {"residual_scale", "layers.?"},
};

}  // namespace

// Everything that a family may switch on.
BOOST_AUTO_TEST_CASE(a_family_with_all_options) {
  Family family{.model = {.vocabulary = 11,
                          .layer = layer_config(Norm::pre, NormKind::layer),
                          .n_layers = 2,
                          .positions = Positions::rotary,
                          .max_length = 16,
                          .rope_theta = 50,
                          .tie_output = false},
                .qk_norm = 1,
                .window = 2,
                .layer_positions = 1};
  family.model.layer.head_width = 8;  // of which half can be rotated
  DecoderConfig& d = family.model.decoder;
  d.embedding_norm = d.is_embedding_scaled = true;
  d.attention_scale = d.residual_scale = d.output_scale = 0.5;
  d.attention_softcap = d.output_softcap = 0.7;
  d.rope.scaling = {.kind = RotaryScale::linear, .factor = 3};
  d.local_rope_theta = 20;
  d.embedding_scale = 2;
  d.experts = 3;
  const Reaches expected{
      {"vocabulary", "output model"},
      {"n_heads", "*.self_attn *.in_proj *.out_proj *.q_norm"},
      {"d_ff", "*.ffn.*.up *.ffn.*.down"},
      {"dropout", "model layers.?"},
      {"norm", "layers.? layers.?.norm? layers.norm"},
      {"activation", "*.experts.? *.experts.?.up *.experts.?.gate"},
      {"eps", "*norm*"},
      {"n_kv_heads", "*.self_attn *.in_proj *.k_norm"},
      {"norm_kind", "*norm*"},
      {"positions", "embedding *.self_attn"},
      {"rope_theta", "layers.0.self_attn"},
      {"norm_place", "*.post_norm?"},
      {"sublayers", "*.norm2"},
      {"norm_is_offset", "*norm*"},
      {"norm_bias", "*norm*"},
      {"ffn_bias", "*.ffn.*.up *.ffn.*.down"},
      {"output_bias", "output"},
      {"embedding_norm", "embedding_norm"},
      {"position_offset", "*.self_attn"},
      {"head_width", "*.self_attn *.in_proj *.out_proj *.?_norm"},
      {"qk_norm", "*.self_attn *.?_norm"},
      {"rope_share", "*.self_attn"},
      {"rope_factor", "layers.0.self_attn"},
      {"local_rope_theta", "layers.1.self_attn"},
      {"layer_positions", "layers.1.self_attn"},
      {"output_scale", "model"},
      {"output_softcap", "model"},
      {"experts", "*.ffn *.ffn.*"},
      {"experts_chosen", "*.ffn *.experts.?.*"},
  };
  test::check_reach(family, joined(kFamily, expected), run_family);
}

// Each norm follows its sublayer.
BOOST_AUTO_TEST_CASE(a_family_with_few_options) {
  Family family{.model = {.vocabulary = 11,
                          .layer = layer_config(Norm::post, NormKind::rms),
                          .n_layers = 2,
                          .positions = Positions::learned,
                          .max_length = 16,
                          .rope_theta = 50}};
  family.model.decoder.local_rope_theta = 20;
  family.model.decoder.residual_scale = 0.5;
  family.model.decoder.output_scale = 0.5;
  const Reaches expected{
      {"vocabulary", "embedding"},
      {"n_heads", "*.self_attn *.in_proj *.out_proj"},
      {"d_ff", "*.ffn.up *.ffn.down"},
      {"dropout", "model *.norm?"},
      {"norm", "layers.? *.norm? layers.norm"},
      {"activation", "*.ffn *.ffn.up *.ffn.gate"},
      {"eps", "*.norm?"},
      {"n_kv_heads", "*.self_attn *.in_proj"},
      {"norm_kind", "*.norm?"},
      {"positions", "embedding *.self_attn"},
      {"rope_theta", ""},
      {"norm_place", "layers.? *.norm? *.post_norm? layers.norm"},
      {"sublayers", "layers.? *.norm?"},
      {"norm_is_offset", "*.norm?"},
      {"norm_bias", ""},  // RMS norms have none
      {"ffn_bias", "*.ffn.up *.ffn.down"},
      {"output_bias", ""},  // nor a tied output layer
      {"embedding_norm", "embedding_norm"},
      {"position_offset", "embedding"},
      {"head_width", "*.self_attn *.in_proj *.out_proj"},
      {"qk_norm", "*.self_attn *.?_norm"},
      {"rope_share", ""},
      {"rope_factor", ""},
      {"local_rope_theta", ""},
      {"layer_positions", ""},
      {"output_scale", "model"},
      {"output_softcap", "model"},
      {"experts", "*.ffn *.ffn.*"},
      {"experts_chosen", ""},
  };
  test::check_reach(family, joined(kFamily, expected), run_family);
}

BOOST_AUTO_TEST_CASE(bert) {
  const BertConfig config{.vocabulary = 11,
                          .layer = layer_config(Norm::post, NormKind::layer),
                          .n_layers = 2,
                          .max_length = 16,
                          .segments = 2};
  const auto run = [](const BertConfig& c) {
    Parameters parameters(1);
    const Bert model(parameters.root() / "bert", c);
    const MaskedHead head(parameters.root() / "head", c);
    test::fill_by_name(parameters);
    head(model(source(), {0, 0, 1, 1, 1, 0, 0, 0, 1}), model.words);
  };
  const Reaches expected{
      {"vocabulary", "model"},
      {"d_model", "?"},
      {"n_heads", "*_attn *.in_proj *.out_proj"},
      {"d_ff", "*.ffn.up *.ffn.down"},
      {"dropout", "model bert.*.norm?"},
      {"attention_dropout", "*_attn"},
      {"norm", "*.layers.? *.layers.?.norm? *.layers.norm"},
      {"activation", "*.ffn.up head.dense"},
      {"bias", "*.in_proj *.out_proj *.ffn.up *.ffn.down *.norm? *.norm"},
      {"eps", "*.norm? *.norm"},
      {"n_kv_heads", "*_attn *.in_proj"},
      {"head_width", "*_attn *.in_proj *.out_proj"},
      {"attention_bias", "*.in_proj *.out_proj"},
      {"norm_kind", "*.norm? *.norm"},
      {"n_layers", "*.layers.[23].*"},
      {"max_length", ""},
      {"segments", ""},
  };
  test::check_reach(config, expected, run);
}

BOOST_AUTO_TEST_CASE(t5) {
  const T5Config config{.vocabulary = 11,
                        .d_model = 16,
                        .n_heads = 4,
                        .head_width = 3,
                        .d_ff = 6,
                        .enc_layers = 2,
                        .dec_layers = 2,
                        .buckets = 4,
                        .max_distance = 5,
                        .dropout = 0.3,
                        .eps = 0.03};
  const auto run = [](const T5Config& c) {
    Parameters parameters(1);
    const T5 model(parameters.root(), c);
    test::fill_by_name(parameters);
    model.logits(source(), target());
  };
  const Reaches expected{
      {"vocabulary", "embedding"},
      {"d_model", "?"},
      {"n_heads", "?"},
      {"head_width", "*_attn *.in_proj *.out_proj"},
      {"d_ff", "*.ffn.up *.ffn.down model"},
      {"enc_layers", "encoder.layers.[23].* model"},
      {"dec_layers", "decoder.layers.[23].* model"},
      {"buckets", "model"},
      {"max_distance", "model"},
      {"is_gated", "*.ffn.up *.ffn.gate model"},
      {"tie_output", "embedding output model"},
      {"scale_tied", "model"},
      {"dropout", "*_attn model"},
      {"eps", "*_norm *.norm"},
  };
  test::check_reach(config, expected, run);
}

namespace {

// How many dropout masks f draws in training.
unsigned masks_of(const std::function<void()>& f) {
  tape().clear();
  f();
  return std::exchange(tape().random.site, 0);
}

}  // namespace

// Each place that a config says is dropped draws one mask: of two layers in either stack, or of three where there is
// one.
BOOST_AUTO_TEST_CASE(dropout_in_all_places) {
  const LayerConfig layer = layer_config(Norm::pre, NormKind::layer);
  Parameters parameters(1);
  const Scope root = parameters.root();
  const Transformer transformer(root / "transformer", transformer_config(layer, Positions::sinusoid));
  BOOST_CHECK_EQUAL(masks_of([&] { transformer.logits(source(), target()); }), 2 + 2 * 3 + 2 * 5);
  const LanguageModel decoder(root / "decoder", {.vocabulary = 11, .layer = layer, .n_layers = 3});
  BOOST_CHECK_EQUAL(masks_of([&] { decoder(source()); }), 1 + 3 * 3);
  const Bert bert(root / "bert", {.vocabulary = 11, .layer = layer, .n_layers = 3});
  BOOST_CHECK_EQUAL(masks_of([&] { bert(source()); }), 1 + 3 * 3);
  const T5 t5(
      root / "t5",
      {.vocabulary = 11, .d_model = 8, .n_heads = 2, .head_width = 4, .d_ff = 6, .enc_layers = 2, .dec_layers = 2});
  BOOST_CHECK_EQUAL(masks_of([&] { t5.logits(source(), target()); }), 2 * 2 + 2 * (2 + 2) + 2 * (2 * 2 + 2));
}
