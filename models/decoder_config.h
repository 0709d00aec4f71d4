// DecoderConfig: how the decoder of a family of language models differs from that of GPT-2 and LLaMA, which differ from
// each other by LayerConfig alone. The defaults differ by nothing. Families (models/hugging_face/families) set it from
// their config.json, which is where it is stored: it is neither an option of programs nor in checkpoints.
#pragma once

#include "../nn/modules/multi_head_attention.h"
#include "../nn/modules/rotary_angles.h"

#include <optional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Where the norms of a sublayer stand, with x the layer's stream.
enum class NormPlace {
  of_layer,  // as LayerConfig::norm says
  around,    // x + norm(sublayer(norm(x))): Gemma 2
  after      // x + norm(sublayer(x)): OLMo 2
};

// What attention and feed-forward network read, and where their results go.
enum class Sublayers {
  one_after_another,
  side_by_side,          // x + attention(norm1(x)) + ffn(norm2(x)): GPT-NeoX
  side_by_side_one_norm  // both read norm1(x): GPT-J, Phi, Falcon, Cohere
};

// Which table of rotary positions a layer has.
enum class LayerPositions {
  common,
  local,  // DecoderConfig::local_rope
  none
};

struct RopeConfig {
  double share = 1;  // of a head's columns that are rotated
  RotaryScaling scaling = {};

  bool operator==(const RopeConfig&) const = default;
};

// The attention of one layer.
struct LayerAttention {
  int window = 0;  // positions that a query sees, its own included; 0: all
  LayerPositions positions = LayerPositions::common;
};

struct DecoderConfig {
  NormPlace norm_place = NormPlace::of_layer;
  Sublayers sublayers = Sublayers::one_after_another;
  bool norm_is_offset = false;                                  // norms multiply by 1 + weight
  std::optional<bool> norm_bias, qkv_bias, out_bias, ffn_bias;  // where they differ from LayerConfig::bias
  bool output_bias = false;                                     // of the output layer
  bool embedding_norm = false;                                  // a layer norm behind the embedding
  int position_offset = 0;  // the first position's row in a learned table, which has more rows then

  QkNorm qk_norm = QkNorm::none;
  double attention_scale = 0;    // of the products of queries and keys; 0: 1 / sqrt(columns of a head)
  double attention_softcap = 0;  // 0: none
  RopeConfig rope = {};
  double local_rope_theta = 10000;              // of LayerPositions::local, never scaled
  std::vector<LayerAttention> attentions = {};  // of each layer; empty: as the defaults say

  bool is_embedding_scaled = false;  // by sqrt(d_model), before embedding_scale
  double embedding_scale = 1;
  double residual_scale = 1;  // of what each sublayer adds
  double output_scale = 1;    // of the scores
  double output_softcap = 0;  // of the scores after that; 0: none

  int experts = 0;  // feed-forward networks of each layer; 0: one, and no router
  int experts_chosen = 2;

  const LayerAttention& attention(int layer) const {
    static const LayerAttention usual;
    return attentions.empty() ? usual : attentions[static_cast<std::size_t>(layer)];
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
