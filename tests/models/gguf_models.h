// Small language models and tokenizers as GGUF files, written as llama.cpp's conversion does.
#pragma once

#include <seppo/models/gguf/gguf_model.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/gguf_tokenizer.h>

#include "support/gguf.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace gguf_models {

using namespace seppo;
using nlohmann::json;
using test::GgufWriter;

constexpr int kTokens = 260;  // 256 bytes, two merges, two marks

// GPT-2's character for each byte.
inline std::vector<std::string> alphabet() {
  const json vocabulary = byte_vocabulary();
  std::vector<std::string> characters(256);
  for (const auto& [character, id] : vocabulary.items())
    if (id < 256) characters[id] = character;
  return characters;
}

inline HfConfig small(bool tie_output, Architecture architecture = Architecture::llama) {
  HfConfig config{.architecture = architecture};
  set_architecture(architecture, config.model);
  config.model.vocabulary = kTokens;
  config.model.layer.d_model = 16;
  config.model.layer.n_heads = 4;
  config.model.layer.n_kv_heads = 2;
  config.model.layer.d_ff = 24;
  config.model.layer.dropout = 0;
  config.model.layer.attention_dropout = 0;
  config.model.layer.eps = 3e-4;  // no value is a default
  config.model.n_layers = 2;
  config.model.max_length = 32;
  config.model.rope_theta = 5000;
  config.model.tie_output = tie_output;
  if (architecture == Architecture::qwen3) config.model.layer.head_width = 6;
  return config;
}

inline std::vector<float> weight(const Parameters& parameters, const std::string& name) {
  const auto values = parameters.find(name)->tensor.values();
  return {values.begin(), values.end()};
}

inline std::vector<float> rows(const std::vector<float>& all, int first, int count, int columns) {
  const auto at = all.begin() + first * columns;
  return {at, at + count * columns};
}

// As llama.cpp's conversion reorders queries and keys: [heads, 2, width / 2] -> [heads, width / 2, 2].
inline std::vector<float> paired(const std::vector<float>& all, int heads, int columns) {
  const int width = static_cast<int>(all.size()) / columns / heads;
  std::vector<float> out;
  for (int head = 0; head < heads; ++head)
    for (int i = 0; i < width / 2; ++i)
      for (int j = 0; j < 2; ++j) {
        const std::vector<float> row = rows(all, head * width + j * width / 2 + i, 1, columns);
        out.insert(out.end(), row.begin(), row.end());
      }
  return out;
}

// The projections of queries, keys and values of a layer, and what belongs to them.
inline void add_attention(GgufWriter& writer, const Parameters& p, const HfConfig& config, int layer) {
  const std::string theirs = "blk." + std::to_string(layer) + ".";
  const std::string ours = "layers." + std::to_string(layer) + ".self_attn.";
  const int q = config.model.layer.head_width > 0 ? 24 : 16;  // rows: four heads, and two of keys
  const std::vector<float> qkv = weight(p, ours + "in_proj.weight");
  const auto in_order = [&](const std::vector<float>& all, int heads) {
    return config.architecture == Architecture::llama ? paired(all, heads, 16) : all;
  };
  const auto size = [](int n) { return static_cast<std::uint64_t>(n); };
  writer.floats(theirs + "attn_q.weight", {16, size(q)}, in_order(rows(qkv, 0, q, 16), 4));
  writer.floats(theirs + "attn_k.weight", {16, size(q / 2)}, in_order(rows(qkv, q, q / 2, 16), 2));
  writer.floats(theirs + "attn_v.weight", {16, size(q / 2)}, rows(qkv, q + q / 2, q / 2, 16));
  writer.floats(theirs + "attn_output.weight", {size(q), 16}, weight(p, ours + "out_proj.weight"));
  if (config.architecture == Architecture::qwen2) {
    const std::vector<float> bias = weight(p, ours + "in_proj.bias");
    writer.floats(theirs + "attn_q.bias", {16}, rows(bias, 0, 16, 1));
    writer.floats(theirs + "attn_k.bias", {8}, rows(bias, 16, 8, 1));
    writer.floats(theirs + "attn_v.bias", {8}, rows(bias, 24, 8, 1));
  }
  if (config.architecture == Architecture::qwen3) {
    writer.floats(theirs + "attn_q_norm.weight", {6}, weight(p, ours + "q_norm.weight"));
    writer.floats(theirs + "attn_k_norm.weight", {6}, weight(p, ours + "k_norm.weight"));
  }
}

inline void add_weights(GgufWriter& writer, const Parameters& p, const HfConfig& config) {
  writer.floats("token_embd.weight", {16, kTokens}, weight(p, "embedding.weight"));
  writer.floats("output_norm.weight", {16}, weight(p, "layers.norm.weight"));
  if (!config.model.tie_output) writer.floats("output.weight", {16, kTokens}, weight(p, "output.weight"));
  for (const int layer : {0, 1}) {
    const std::string theirs = "blk." + std::to_string(layer) + ".";
    const std::string ours = "layers." + std::to_string(layer) + ".";
    writer.floats(theirs + "attn_norm.weight", {16}, weight(p, ours + "norm1.weight"));
    writer.floats(theirs + "ffn_norm.weight", {16}, weight(p, ours + "norm2.weight"));
    add_attention(writer, p, config, layer);
    writer.floats(theirs + "ffn_gate.weight", {16, 24}, weight(p, ours + "ffn.gate.weight"));
    writer.floats(theirs + "ffn_up.weight", {16, 24}, weight(p, ours + "ffn.up.weight"));
    writer.floats(theirs + "ffn_down.weight", {24, 16}, weight(p, ours + "ffn.down.weight"));
  }
}

inline void add_metadata(GgufWriter& writer, const HfConfig& config) {
  const std::string kind = enum_names(config.architecture)[static_cast<std::size_t>(config.architecture)];
  writer.add("general.architecture", kind);
  writer.add(kind + ".embedding_length", 16u);
  writer.add(kind + ".feed_forward_length", 24u);
  writer.add(kind + ".block_count", 2u);
  writer.add(kind + ".context_length", 32u);
  writer.add(kind + ".attention.head_count", 4u);
  writer.add(kind + ".attention.head_count_kv", 2u);
  writer.add(kind + ".attention.layer_norm_rms_epsilon", static_cast<float>(config.model.layer.eps));
  writer.add(kind + ".rope.freq_base", 5000.0F);
  const int width = config.model.layer.head_width;
  if (width > 0) writer.add(kind + ".attention.key_length", static_cast<std::uint32_t>(width));
  writer.add(kind + ".rope.dimension_count", width > 0 ? static_cast<std::uint32_t>(width) : 4u);
}

inline void add_tokenizer(GgufWriter& writer, const std::string& pre = "gpt-2") {
  std::vector<std::string> tokens = alphabet();
  std::vector<std::int32_t> types(258, 1);
  for (const char* token : {"ab", "abc", "<start>", "<end>"}) tokens.push_back(token);
  types.insert(types.end(), 2, 3);
  writer.add("tokenizer.ggml.model", std::string("gpt2"));
  writer.add("tokenizer.ggml.pre", pre);
  writer.add("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.merges", std::vector<std::string>{"a b", "ab c"});
  writer.add("tokenizer.ggml.bos_token_id", 258u);
  writer.add("tokenizer.ggml.eos_token_id", 259u);
  writer.add("tokenizer.chat_template", std::string("{{ messages }}"));
}

inline json gguf_like_tokenizer() {
  const test::Folder folder("gguf");
  GgufWriter writer;
  add_tokenizer(writer);
  folder.write("f.gguf", writer.file());
  return gguf_tokenizer_json(GgufFile(folder.path / "f.gguf"));
}

}  // namespace gguf_models
