// The tables of names, and the function that applies one.
#include "foreign_weights.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <regex>
#include <sstream>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

struct Rule {
  std::regex from;
  std::string to;
};

std::vector<Rule> rules_of(const std::string& table) {
  std::vector<Rule> rules;
  std::istringstream words(table);
  for (std::string from, arrow, to; words >> from;) {
    const bool is_rule = words >> arrow >> to && arrow == "->";
    check<ArgumentError>(is_rule, "renaming: '", from, "' is not followed by -> and a name");
    if (to.ends_with(',')) to.pop_back();
    rules.push_back({std::regex("\\b" + from + "\\b"), to});
  }
  return rules;
}

// "attn.{q,k,v}_proj" -> "attn.q_proj", "attn.k_proj", "attn.v_proj"
std::vector<std::string> stack_of(const std::string& name) {
  const std::size_t open = name.find('{');
  const std::size_t close = name.find('}', open);
  if (close == name.npos) return {name};
  const std::string before = name.substr(0, open);
  const std::string behind = name.substr(close + 1);
  std::vector<std::string> names;
  for (std::size_t begin = open + 1; begin <= close;) {
    const std::size_t end = std::min(name.find(',', begin), close);
    names.push_back(before + name.substr(begin, end - begin) + behind);
    begin = end + 1;
  }
  return names;
}

}  // namespace

std::function<std::vector<std::string>(const std::string&)> renaming(const std::string& table) {
  return [rules = rules_of(table)](std::string name) {
    for (const Rule& rule : rules) name = std::regex_replace(name, rule.from, rule.to);
    return stack_of(name);
  };
}

WeightOptions torch_weights() {
  return {.rename = renaming("in_proj.weight -> in_proj_weight, in_proj.bias -> in_proj_bias, "
                             "cross_attn -> multihead_attn, ffn.up -> linear1, ffn.down -> linear2, "
                             "([0-9]+).(self_attn|multihead_attn|linear1|linear2|norm1|norm2|norm3) -> layers.$1.$2")};
}

std::string gpt2_names(const std::string& prefix) {
  return "embedding -> " + prefix + "wte, positions -> " + prefix + "wpe, layers.norm -> " + prefix +
         "ln_f, layers -> " + prefix +
         "h, norm1 -> ln_1, norm2 -> ln_2, self_attn.in_proj -> attn.c_attn, self_attn.out_proj -> attn.c_proj, "
         "ffn.up -> mlp.c_fc, ffn.down -> mlp.c_proj, output -> lm_head";
}

WeightOptions gpt2_weights(const std::string& prefix) {
  const auto is_mask = [](const std::string& name) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  };
  return {.rename = renaming(gpt2_names(prefix)),
          .transpose = [](const std::string& name) { return name.find("layers.") != name.npos; },
          .skip = is_mask};
}

std::string llama_names() {
  return "embedding -> model.embed_tokens, layers.norm -> model.norm, layers -> model.layers, "
         "norm1 -> input_layernorm, norm2 -> post_attention_layernorm, self_attn.in_proj -> self_attn.{q,k,v}_proj, "
         "self_attn.out_proj -> self_attn.o_proj, ffn.(gate|up|down) -> mlp.$1_proj, output -> lm_head";
}

WeightOptions llama_weights(int n_heads, int n_kv_heads) {
  const std::vector<int> shares{n_heads, n_kv_heads, n_kv_heads};
  return {.rename = renaming(llama_names()),
          .shares = [shares](const std::string&) { return shares; },  // NOLINT(*-no-automatic-move): captured
          .skip = [](const std::string& name) { return name.ends_with("rotary_emb.inv_freq"); }};
}

WeightOptions bert_weights(bool has_gamma) {
  const std::string norms = has_gamma ? ", LayerNorm.weight -> LayerNorm.gamma, LayerNorm.bias -> LayerNorm.beta" : "";
  const auto is_other = [](const std::string& name) {
    return name.ends_with("pooler.dense.weight") || name.ends_with("pooler.dense.bias") ||
           name.ends_with("embeddings.position_ids") || name.starts_with("cls.predictions.decoder.") ||
           name.starts_with("cls.seq_relationship.");
  };
  return {.rename = renaming("cls.dense -> cls.predictions.transform.dense, cls.bias -> cls.predictions.bias, "
                             "cls.norm -> cls.predictions.transform.LayerNorm, words -> embeddings.word_embeddings, "
                             "positions -> embeddings.position_embeddings, "
                             "segments -> embeddings.token_type_embeddings, norm -> embeddings.LayerNorm, "
                             "layers -> encoder.layer, self_attn.in_proj -> attention.self.{query,key,value}, "
                             "self_attn.out_proj -> attention.output.dense, ffn.up -> intermediate.dense, "
                             "ffn.down -> output.dense, norm1 -> attention.output.LayerNorm, "
                             "norm2 -> output.LayerNorm" +
                             norms),
          .skip = is_other};
}

WeightOptions t5_weights(bool is_gated) {
  const std::string up = is_gated ? "wi_1" : "wi";
  const auto is_copy_or_table = [](const std::string& name) {
    return name.ends_with("coder.embed_tokens.weight") ||
           name.ends_with("EncDecAttention.relative_attention_bias.weight");
  };
  return {.rename = renaming("(encoder|decoder).relative -> "
                             "$1.block.0.layer.0.SelfAttention.relative_attention_bias.weight, "
                             "(encoder|decoder).norm -> $1.final_layer_norm, (encoder|decoder).layers -> $1.block, "
                             "self_norm -> layer.0.layer_norm, self_attn -> layer.0.SelfAttention, "
                             "cross_norm -> layer.1.layer_norm, cross_attn -> layer.1.EncDecAttention, "
                             "in_proj -> {q,k,v}, out_proj -> o, "
                             "(encoder.block.[0-9]+).ffn_norm -> $1.layer.1.layer_norm, "
                             "(encoder.block.[0-9]+).ffn -> $1.layer.1.DenseReluDense, "
                             "ffn_norm -> layer.2.layer_norm, ffn -> layer.2.DenseReluDense, "
                             "DenseReluDense.gate -> DenseReluDense.wi_0, DenseReluDense.down -> DenseReluDense.wo, "
                             "DenseReluDense.up -> DenseReluDense." +
                             up + ", embedding -> shared, output -> lm_head"),
          .skip = is_copy_or_table};
}

WeightOptions marian_weights() {
  const auto is_copy_or_table = [](const std::string& name) {
    return name.ends_with("coder.embed_tokens.weight") || name.ends_with("coder.embed_positions.weight") ||
           name == "lm_head.weight";
  };
  return {.rename = renaming("(encoder.[0-9]+).norm2 -> $1.final_layer_norm, norm1 -> self_attn_layer_norm, "
                             "norm2 -> encoder_attn_layer_norm, norm3 -> final_layer_norm, "
                             "cross_attn -> encoder_attn, in_proj -> {q,k,v}_proj, ffn.up -> fc1, ffn.down -> fc2, "
                             "(encoder|decoder).([0-9]+) -> model.$1.layers.$2, embedding -> model.shared"),
          .skip = is_copy_or_table};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
