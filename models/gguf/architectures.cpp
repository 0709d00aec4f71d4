// The entries of the table. What llama.cpp knows of an architecture beside the metadata, such as which layers have
// windows, is said here again.
#include "architectures.h"

#include "../../autograd/core/check.h"
#include "../../nn/io/json.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;
using Model = LanguageModelConfig;

namespace {

constexpr const char* kWindow = "attention.sliding_window";

// ---- what several architectures have

// The flags of a family's config.json that are the same for queries, keys, values and the output of attention, and for
// the feed-forward network: here, tensors that are there.
void read_biases(ModelKeys& keys, Model& m) {
  m.decoder.qkv_bias = m.decoder.out_bias = keys.has_tensor("blk.0.attn_q.bias");
  m.decoder.ffn_bias = keys.has_tensor("blk.0.ffn_up.bias");
}

// One entry for each layer.
std::vector<LayerAttention>& attentions_of(const ModelKeys& keys, Model& m) {
  constexpr int kMostLayers = 1000;
  check<FormatError>(m.n_layers <= kMostLayers, keys.file().name(), ": ", m.n_layers, " layers are more than ",
                     kMostLayers);
  m.decoder.attentions.resize(static_cast<std::size_t>(m.n_layers));
  return m.decoder.attentions;
}

// Whether a layer has a window: as a list says, or as every n-th layer does not.
std::vector<bool> windowed_layers(ModelKeys& keys, int n_layers, int usual_pattern) {
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const json* const said = keys.find(kPattern);
  std::vector<bool> windowed;
  if (said && said->is_array()) {
    for (const json& one : *said) windowed.push_back(one == true);
    check<FormatError>(std::ssize(windowed) == n_layers, keys.file().name(), ": '", kPattern, "' is no list of ",
                       n_layers, " layers");
    return windowed;
  }
  const int pattern = std::max(1, keys.integer(kPattern, usual_pattern));
  for (int layer = 0; layer < n_layers; ++layer) windowed.push_back((layer + 1) % pattern != 0);
  return windowed;
}

void read_windows(ModelKeys& keys, Model& m, int usual_pattern, LayerPositions windowed,
                  std::optional<int> usual_window = {}) {
  const int window = keys.integer(kWindow, usual_window);
  check<FormatError>(window > 0, keys.file().name(), ": '", kWindow, "' is 0");
  std::vector<LayerAttention>& attentions = attentions_of(keys, m);
  const std::vector<bool> has_window = windowed_layers(keys, m.n_layers, usual_pattern);
  for (std::size_t i = 0; i < attentions.size(); ++i)
    if (has_window[i]) attentions[i] = {.window = window, .positions = windowed};
}

// The window of the layers that have one, which read_windows() knows.
int window_of(const Model& m) {
  const auto& all = m.decoder.attentions;
  const auto found = std::ranges::find_if(all, [](const LayerAttention& attention) { return attention.window > 0; });
  return found == all.end() ? 0 : found->window;
}

void read_parallel(ModelKeys& keys, Model& m, Sublayers form, bool fallback) {
  m.decoder.sublayers = keys.flag("use_parallel_residual", fallback) ? form : Sublayers::one_after_another;
}

void write_parallel(NewKeys& keys, const Model& m) {
  keys.add("use_parallel_residual", m.decoder.sublayers != Sublayers::one_after_another);
}

// The factor of products of queries and keys, for which llama.cpp reads no key: that of the columns of a head, but in
// the largest model, which has so many layers, that of the model's columns for each head.
void set_attention_scale(Model& m, int layers_of_the_largest) {
  if (m.n_layers != layers_of_the_largest) return;
  m.decoder.attention_scale = std::sqrt(static_cast<double>(m.layer.n_heads) / m.layer.d_model);
}

// ---- one by one

void read_mixtral(ModelKeys& keys, Model& m) {
  m.decoder.experts = keys.integer("expert_count");
  m.decoder.experts_chosen = keys.integer("expert_used_count");
}

void write_mixtral(NewKeys& keys, const Model& m) {
  keys.add("expert_count", m.decoder.experts);
  keys.add("expert_used_count", m.decoder.experts_chosen);
}

void read_smollm3(ModelKeys& keys, Model& m) {
  constexpr std::size_t kInterval = 4;
  read_biases(keys, m);
  std::vector<LayerAttention>& attentions = attentions_of(keys, m);
  for (std::size_t i = kInterval - 1; i < attentions.size(); i += kInterval)
    attentions[i].positions = LayerPositions::none;
}

void read_granite(ModelKeys& keys, Model& m) {
  read_biases(keys, m);
  m.decoder.embedding_scale = keys.number("embedding_scale", 1);
  m.decoder.residual_scale = keys.number("residual_scale", 1);
  m.decoder.attention_scale = keys.number("attention.scale", 0);
  m.decoder.output_scale = 1 / keys.positive("logit_scale", 1);
  keys.require("rope.scaling.finetuned", true);  // false: without rotary positions
}

void write_granite(NewKeys& keys, const Model& m) {
  keys.add("embedding_scale", m.decoder.embedding_scale);
  keys.add("residual_scale", m.decoder.residual_scale);
  keys.add_unless_0("attention.scale", m.decoder.attention_scale);
  keys.add("logit_scale", 1 / m.decoder.output_scale);
}

void read_phi3(ModelKeys& keys, Model& m) {
  const int window = keys.integer(kWindow, 0);
  keys.number("rope.scaling.original_context_length", 0);  // is of scaled positions, which have tensors of their own
  if (window == 0) return;
  for (LayerAttention& attention : attentions_of(keys, m)) attention.window = window;
}

void write_phi3(NewKeys& keys, const Model& m) {
  keys.add(kWindow, window_of(m));  // 0 too: some versions of llama.cpp take another width to be meant without
}

void read_gemma2(ModelKeys& keys, Model& m) {
  read_windows(keys, m, 2, LayerPositions::common, 4096);
  set_attention_scale(m, 46);
  m.decoder.attention_softcap = keys.number("attn_logit_softcapping", 50);
  m.decoder.output_softcap = keys.number("final_logit_softcapping", 30);
}

void read_gemma3(ModelKeys& keys, Model& m) {
  read_windows(keys, m, 6, LayerPositions::local);
  set_attention_scale(m, 62);
  m.decoder.local_rope_theta = keys.number("rope.freq_base_swa", 10000);
  m.decoder.output_softcap = keys.number("final_logit_softcapping", 0);
}

void write_gemma2(NewKeys& keys, const Model& m) {
  keys.add(kWindow, window_of(m));
  keys.add_unless_0("attn_logit_softcapping", m.decoder.attention_softcap);
  keys.add_unless_0("final_logit_softcapping", m.decoder.output_softcap);
}

void write_gemma3(NewKeys& keys, const Model& m) {
  write_gemma2(keys, m);
  keys.add("rope.freq_base_swa", m.decoder.local_rope_theta);
}

void read_gpt_neox(ModelKeys& keys, Model& m) { read_parallel(keys, m, Sublayers::side_by_side, true); }

void read_stablelm(ModelKeys& keys, Model& m) {
  m.decoder.qkv_bias = keys.has_tensor("blk.0.attn_q.bias");
  read_parallel(keys, m, Sublayers::side_by_side_one_norm, false);
}

bool has_two_norms(const ModelKeys& keys) { return keys.has_tensor("blk.0.attn_norm_2.weight"); }

void read_falcon(ModelKeys& keys, Model& m) {
  m.decoder.sublayers = has_two_norms(keys) ? Sublayers::side_by_side : Sublayers::side_by_side_one_norm;
}

void read_cohere(ModelKeys& keys, Model& m) {
  m.decoder.output_scale = keys.required("logit_scale");
  keys.require("rope.scaling.type", "none");
}

void write_cohere(NewKeys& keys, const Model& m) {
  keys.add("logit_scale", m.decoder.output_scale);
  keys.add("rope.scaling.type", "none");
}

// ---- names

auto fixed(const char* table) {
  return [=](const Model&) { return std::string(table); };
}

std::string falcon_names(const Model& m) {
  if (m.decoder.sublayers == Sublayers::side_by_side) return "norm1 -> attn_norm_2, norm2 -> attn_norm, ";
  return "";
}

constexpr const char* kFourNorms = "post_norm1 -> post_attention_norm, post_norm2 -> post_ffw_norm, ";
constexpr const char* kNormsBehind = "norm1 -> post_attention_norm, norm2 -> post_ffw_norm, ";

}  // namespace

const std::vector<GgufArchitecture>& gguf_architectures() {
  using enum Architecture;
  static const std::vector<GgufArchitecture> all{
      {.name = "llama",
       .family = llama,
       .read = read_biases,
       .has_pairs = true,
       .has_rope_factors = true,
       .has_head_width = true},
      {.name = "llama",
       .family = mixtral,
       .read = read_mixtral,
       .write = write_mixtral,
       .has_pairs = true,
       .is_of_experts = true,
       .has_rope_factors = true,
       .has_head_width = true},
      {.name = "qwen2", .family = qwen2},
      {.name = "qwen3", .family = qwen3, .has_head_width = true},
      {.name = "smollm3", .family = smollm3, .read = read_smollm3, .has_pairs = true},
      {.name = "granite",
       .family = granite,
       .read = read_granite,
       .write = write_granite,
       .has_pairs = true,
       .has_rope_factors = true,
       .has_head_width = true},
      {.name = "olmo2", .family = olmo2, .names = fixed(kNormsBehind), .needs_head = true},
      {.name = "phi3",
       .family = phi3,
       .read = read_phi3,
       .write = write_phi3,
       .names = fixed("ffn.(gate|up) -> ffn_up, "),
       .is_partial = true,
       .is_stacked = true},
      {.name = "gemma", .family = gemma, .has_no_head = true, .has_head_width = true},
      {.name = "gemma2",
       .family = gemma2,
       .read = read_gemma2,
       .write = write_gemma2,
       .names = fixed(kFourNorms),
       .has_no_head = true,
       .has_head_width = true},
      {.name = "gemma3",
       .family = gemma3_text,
       .read = read_gemma3,
       .write = write_gemma3,
       .names = fixed(kFourNorms),
       .has_head_width = true},
      {.name = "phi2", .family = phi, .is_partial = true, .is_stacked = true},
      {.name = "gptneox",
       .family = gpt_neox,
       .read = read_gpt_neox,
       .write = write_parallel,
       .is_partial = true,
       .is_stacked = true,
       .needs_head = true},
      {.name = "stablelm",
       .family = stablelm,
       .read = read_stablelm,
       .write = write_parallel,
       .is_partial = true,
       .needs_head = true},
      {.name = "falcon", .family = falcon, .read = read_falcon, .names = falcon_names, .is_stacked = true},
      {.name = "command-r", .family = cohere, .read = read_cohere, .write = write_cohere, .has_no_head = true},
      {.name = "gpt2", .family = gpt2, .is_stacked = true},
      {.name = "bloom", .family = bloom, .is_stacked = true}};
  return all;
}

std::string gguf_names(const GgufArchitecture& architecture, const Model& model, bool is_qkv_stacked) {
  const std::string qkv = is_qkv_stacked ? "attn_qkv" : "attn_{q,k,v}";
  return (architecture.names ? architecture.names(model) : "") +
         "embedding -> token_embd, embedding_norm -> token_embd_norm, positions -> position_embd, "
         "layers.norm -> output_norm, layers -> blk, norm1 -> attn_norm, norm2 -> ffn_norm, self_attn.in_proj -> " +
         qkv +
         ", self_attn.out_proj -> attn_output, self_attn.(q|k)_norm -> attn_$1_norm, ffn.router -> ffn_gate_inp, "
         "ffn.experts.[0-9]+.(gate|up|down) -> ffn_$1_exps, ffn.(gate|up|down) -> ffn_$1";
}

const GgufArchitecture& architecture_of(const GgufSource& file) {
  const json name = file.metadata().value("general.architecture", json());
  const auto experts = name.is_string() ? name.get<std::string>() + ".expert_count" : std::string();
  const bool has_experts = file.metadata().value(experts, json(0)) != 0;
  const auto& all = gguf_architectures();
  const auto is_same = [&](const GgufArchitecture& one) { return name == one.name; };
  const auto found =
      std::ranges::find_if(all, [&](const auto& one) { return is_same(one) && one.is_of_experts == has_experts; });
  if (found != all.end()) return *found;
  const auto without = std::ranges::find_if(all, is_same);  // the key is refused when it is read
  if (without != all.end()) return *without;
  std::string known;
  for (const GgufArchitecture& one : all)
    if (!one.is_of_experts) known += (known.empty() ? "" : ", ") + one.name;
  fail<FormatError>(file.name(), ": general.architecture: ", printable_json(name), " is not supported; known are ",
                    known);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
