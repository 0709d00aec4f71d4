// A model as a GGUF file: metadata, and tensors in llama.cpp's order.
#include "architectures.h"
#include "gguf_model.h"
#include "gguf_tensors.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

const GgufArchitecture& architecture_for(Architecture family) {
  if (family == Architecture::mistral) family = Architecture::llama;
  const auto& all = gguf_architectures();
  const auto found =
      std::ranges::find_if(all, [&](const GgufArchitecture& one) { return one.family == family && one.is_written; });
  check<ArgumentError>(found != all.end(), "gguf: the architecture ",
                       enum_names(family)[static_cast<std::size_t>(family)],
                       " is not written; llama, mistral, qwen2 and qwen3 are");
  return *found;
}

// What is left of a config in such a file.
HfConfig written_config(const HfConfig& config) {
  HfConfig left = config;
  const LanguageModelConfig& m = config.model;
  left.model = {};
  set_architecture(config.architecture, left.model);
  left.model.decoder.attentions.clear();  // windows
  left.model.vocabulary = m.vocabulary;
  left.model.n_layers = m.n_layers;
  left.model.max_length = m.max_length;
  left.model.rope_theta = m.rope_theta;
  left.model.tie_output = m.tie_output;
  left.model.layer.d_model = m.layer.d_model;
  left.model.layer.d_ff = m.layer.d_ff;
  left.model.layer.n_heads = m.layer.n_heads;
  left.model.layer.n_kv_heads = m.layer.n_kv_heads;
  left.model.layer.eps = m.layer.eps;
  left.model.layer.head_width = m.layer.head_width;
  return left;
}

void check_written(const HfConfig& config) {
  const json all = to_json(config), left = to_json(written_config(config));
  for (const auto& [key, value] : all.items())
    check<ArgumentError>(left.value(key, json()) == value, "gguf: ", printable(key), ": ", printable(value.dump()),
                         " is nothing that a file of this architecture has");
}

void add_config(GgufBuilder& file, const std::string& kind, const HfConfig& config) {
  const LanguageModelConfig& m = config.model;
  const int width = m.layer.head_columns();
  const auto add = [&](const char* key, int value) { file.add(kind + "." + key, static_cast<std::uint32_t>(value)); };
  file.add("general.architecture", kind);
  add("vocab_size", m.vocabulary);
  add("embedding_length", m.layer.d_model);
  add("feed_forward_length", m.layer.d_ff);
  add("block_count", m.n_layers);
  add("context_length", m.max_length);
  add("attention.head_count", m.layer.n_heads);
  add("attention.head_count_kv", m.layer.kv_heads());
  add("attention.key_length", width);
  add("attention.value_length", width);
  add("rope.dimension_count", width);
  file.add(kind + ".attention.layer_norm_rms_epsilon", static_cast<float>(m.layer.eps));
  file.add(kind + ".rope.freq_base", static_cast<float>(m.rope_theta));
}

// A weight in the file's order, as floats.
void fill(std::span<const real> values, int heads, std::size_t columns, std::span<float> to) {
  std::vector<real> pairs;
  if (heads > 0) {
    pairs.resize(values.size());
    interleave_pairs(values, heads, columns, pairs);
    values = pairs;
  }
  std::ranges::transform(values, to.begin(), [](real value) { return static_cast<float>(value); });
}

}  // namespace

GgufBuilder gguf_of(const HfConfig& config, const Parameters& parameters) {
  const GgufArchitecture& architecture = architecture_for(config.architecture);
  check_written(config);
  GgufBuilder file;
  add_config(file, architecture.name, config);
  const WeightOptions options = weights_of(config);
  const GgufTensors tensors(architecture, config.model, /*is_qkv_stacked=*/false);
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (options.skip && options.skip(entry.name)) continue;
    std::span<const real> left = entry.tensor.values();
    for (const GgufPart& part : tensors.parts(entry)) {
      const auto size = static_cast<std::size_t>(part.shape.numel());
      const std::span<const real> values = left.first(size);
      const auto columns = size / static_cast<std::size_t>(part.shape[0]);
      const int heads = part.heads;
      file.add_tensor(part.tensor, part.whole, [=](std::span<float> to) { fill(values, heads, columns, to); });
      left = left.subspan(size);
    }
  }
  return file;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
