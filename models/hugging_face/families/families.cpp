// The table of families, and how an entry's names and forms become options for files of weights.
#include "family.h"

#include "../../../autograd/core/check.h"
#include "../../../nn/io/foreign_weights.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Masks and tables that some files store beside the weights.
bool is_no_parameter(const std::string& name) {
  constexpr std::array<std::string_view, 5> kEnds{"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                                  ".attention.bias", ".attention.masked_bias"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

// Adapters (models/lora.h) are not among the model's weights.
bool is_adapter(const std::string& name) { return name.starts_with("lora."); }

bool is_in_layers(const std::string& name) { return name.starts_with("layers.") && !name.starts_with("layers.norm."); }

// For each row of the stack of queries, keys and values, its row in a tensor that is ordered by heads of keys.
TensorRows rows_by_kv_head(const LanguageModelConfig& m) {
  const int n_kv_heads = m.layer.kv_heads();
  const int shared = m.layer.n_heads / n_kv_heads;
  const int width = m.layer.head_columns();
  TensorRows rows;
  const auto add_head = [&](int head) {
    for (int i = 0; i < width; ++i) rows.order.push_back(head * width + i);
  };
  for (int q = 0; q < m.layer.n_heads; ++q) add_head(q / shared * (shared + 2) + q % shared);
  for (const int behind : {0, 1})  // the keys, the values
    for (int k = 0; k < n_kv_heads; ++k) add_head(k * (shared + 2) + shared + behind);
  rows.of = static_cast<int>(rows.order.size());
  return rows;
}

TensorRows consecutive_rows(int begin, int count, int of) {
  TensorRows rows{.of = of};
  for (int i = 0; i < count; ++i) rows.order.push_back(begin + i);
  return rows;
}

std::function<TensorRows(const std::string&)> rows_of(const Family& family, const LanguageModelConfig& m) {
  const bool is_by_head = family.qkv == QkvTensors::by_kv_head;
  const bool is_gate_stacked = family.is_gate_stacked;
  return [=](const std::string& name) -> TensorRows {
    const auto is_of = [&](std::string_view part) { return !is_adapter(name) && name.find(part) != name.npos; };
    if (is_by_head && is_of(".self_attn.in_proj.")) return rows_by_kv_head(m);
    if (is_gate_stacked && is_of(".ffn.gate.")) return consecutive_rows(0, m.layer.d_ff, 2 * m.layer.d_ff);
    if (is_gate_stacked && is_of(".ffn.up.")) return consecutive_rows(m.layer.d_ff, m.layer.d_ff, 2 * m.layer.d_ff);
    return {};
  };
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all{llama(),    gpt2(),     mistral(), mixtral(), qwen2(),  qwen3(),  smollm3(),
                                       granite(),  olmo2(),    phi3(),    gemma(),   gemma2(), gemma3(), phi(),
                                       gpt_neox(), stablelm(), falcon(),  cohere(),  opt(),    bloom()};
  return all;
}

const Family& family_of(Architecture architecture) { return families().at(static_cast<std::size_t>(architecture)); }

WeightOptions weights_of(const Family& family, const LanguageModelConfig& m, bool has_prefix) {
  const auto rename_whole = renaming(family.names(m));
  const auto rename = [=, prefix = family.prefix](const std::string& name) {
    if (is_adapter(name)) return std::vector{name};
    std::vector<std::string> names = rename_whole(name);
    for (std::string& one : names)
      if (!has_prefix && one.starts_with(prefix)) one.erase(0, prefix.size());
    return names;
  };
  // A tied output layer needs no copy of the embedding.
  const std::string copy = m.tie_output ? rename("output.weight")[0] : "";
  const std::vector<int> shares{m.layer.n_heads, m.layer.kv_heads(), m.layer.kv_heads()};
  WeightOptions options{
      .rename = rename,
      .shares = [=](const std::string&) { return shares; },  // NOLINT(*-no-automatic-move): captured
      .rows = rows_of(family, m),
      .skip = [=](const std::string& name) { return is_adapter(name) || name == copy || is_no_parameter(name); }};
  if (family.is_transposed) options.transpose = is_in_layers;
  return options;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
