// How other programs name the parameters of seppo's models: options for load_weights and save_weights, to copy.
// docs/foreign-weights.md explains the tables and the configs that go with them.
//
//   load_weights("model.safetensors", parameters, gpt2_weights());
#pragma once

#include <seppo/nn/io/checkpoint.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace examples {

// A renaming function from a table of ECMAScript regular expressions, "ffn.up -> fc1, self_attn.in_proj ->
// attn.{q,k,v}". Each in turn, where it matches whole words, is replaced by its right side, in which $1 is the first
// group, and {q,k,v} makes a stack of three. Throws ArgumentError if the table is malformed.
inline std::function<std::vector<std::string>(const std::string&)> renaming(const std::string& table) {
  std::vector<std::pair<std::regex, std::string>> rules;
  std::istringstream words(table);
  for (std::string from, arrow, to; words >> from;) {
    seppo::check<seppo::ArgumentError>(words >> arrow >> to && arrow == "->", "renaming: '", from,
                                       "' is not followed by -> and a name");
    if (to.ends_with(',')) to.pop_back();
    rules.emplace_back("\\b" + from + "\\b", to);
  }
  return [rules](std::string name) {
    for (const auto& [from, to] : rules) name = std::regex_replace(name, from, to);
    const std::size_t open = name.find('{'), close = name.find('}', open);
    if (close == name.npos) return std::vector{name};
    std::vector<std::string> names;
    for (std::size_t begin = open + 1, end; begin <= close; begin = end + 1) {
      end = std::min(name.find(',', begin), close);
      names.push_back(name.substr(0, open) + name.substr(begin, end - begin) + name.substr(close + 1));
    }
    return names;
  };
}

// PyTorch: nn.Linear, Embedding, LayerNorm and BatchNorm1d use the same names as seppo; MultiheadAttention,
// TransformerEncoder, TransformerDecoder, their layers and the two stacks of nn.Transformer use these.
inline seppo::WeightOptions torch_weights() {
  return {.rename = renaming("in_proj.weight -> in_proj_weight, in_proj.bias -> in_proj_bias, "
                             "cross_attn -> multihead_attn, ffn.up -> linear1, ffn.down -> linear2, "
                             "([0-9]+).(self_attn|multihead_attn|linear1|linear2|norm1|norm2|norm3) -> layers.$1.$2")};
}

// GPT-2 (Radford et al. 2019) as stored in Hugging Face's `gpt2`, for a LanguageModel; with the prefix "transformer.",
// as GPT2LMHeadModel saves it. The matrices of its layers are stored transposed, and the file contains masks that are
// not parameters. An output layer that is not tied to the embedding has no prefix.
inline seppo::WeightOptions gpt2_weights(const std::string& prefix = "") {
  const auto is_mask = [](const std::string& name) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  };
  return {.rename = renaming("embedding -> " + prefix + "wte, positions -> " + prefix + "wpe, layers.norm -> " +
                             prefix + "ln_f, layers -> " + prefix + "h, norm1 -> ln_1, norm2 -> ln_2, " +
                             "self_attn.in_proj -> attn.c_attn, self_attn.out_proj -> attn.c_proj, " +
                             "ffn.up -> mlp.c_fc, ffn.down -> mlp.c_proj, output -> lm_head"),
          .transpose = [](const std::string& name) { return name.find("layers.") != name.npos; },
          .skip = is_mask};
}

// LLaMA (Touvron et al. 2023) as Hugging Face's LlamaForCausalLM saves it, for a LanguageModel with these numbers of
// heads for queries, and for keys and values.
inline seppo::WeightOptions llama_weights(int n_heads, int n_kv_heads) {
  return {.rename = renaming("embedding -> model.embed_tokens, layers.norm -> model.norm, layers -> model.layers, "
                             "norm1 -> input_layernorm, norm2 -> post_attention_layernorm, "
                             "self_attn.in_proj -> self_attn.{q,k,v}_proj, self_attn.out_proj -> self_attn.o_proj, "
                             "ffn.(gate|up|down) -> mlp.$1_proj, output -> lm_head"),
          .shares =
              [=](const std::string&) {
                return std::vector{n_heads, n_kv_heads, n_kv_heads};
              },
          .skip = [](const std::string& name) { return name.ends_with(".rotary_emb.inv_freq"); }};
}

}  // namespace examples
