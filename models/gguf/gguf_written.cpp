// A model as a GGUF file: metadata, and tensors in llama.cpp's order.
#include "architectures.h"
#include "gguf_model.h"
#include "gguf_tensors.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/json.h"
#include "../../nn/modules/positional_encoding.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

const GgufArchitecture& architecture_for(Architecture family) {
  const Architecture written = family == Architecture::mistral ? Architecture::llama : family;
  const auto& all = gguf_architectures();
  const auto found = std::ranges::find(all, written, &GgufArchitecture::family);
  check<ArgumentError>(found != all.end(), "gguf: the architecture ",
                       enum_names(family)[static_cast<std::size_t>(family)], " is none of llama.cpp's");
  return *found;
}

void add_rope(GgufBuilder& file, NewKeys& keys, const LanguageModelConfig& m) {
  const RotaryScaling& scaling = m.decoder.rope.scaling;
  const int columns = rotated_columns(m.decoder.rope.share, m.layer.head_columns());
  keys.add("rope.dimension_count", columns);
  keys.add("rope.freq_base", m.rope_theta);
  if (scaling.kind == RotaryScale::linear || scaling.kind == RotaryScale::yarn) {
    const bool is_yarn = scaling.kind == RotaryScale::yarn;
    keys.add("rope.scaling.type", is_yarn ? "yarn" : "linear");
    keys.add("rope.scaling.factor", scaling.factor);
    if (is_yarn) keys.add("rope.scaling.original_context_length", static_cast<int>(scaling.original_length));
  } else if (scaling.kind == RotaryScale::llama3) {
    file.add_tensor(kRopeFactors, {columns / 2}, [=, theta = m.rope_theta](std::span<float> to) {
      const std::vector<double> plain = rotary_angles(columns, theta).wavelengths;
      const std::vector<double> scaled = rotary_angles(columns, theta, scaling).wavelengths;
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(scaled[i] / plain[i]);
    });
  }
}

void add_config(GgufBuilder& file, const GgufArchitecture& architecture, const LanguageModelConfig& m) {
  file.add("general.architecture", architecture.name);
  NewKeys keys(file, architecture.name);
  keys.add("vocab_size", m.vocabulary);
  keys.add("embedding_length", m.layer.d_model);
  keys.add("feed_forward_length", m.layer.d_ff);
  keys.add("block_count", m.n_layers);
  keys.add("context_length", m.max_length);
  keys.add("attention.head_count", m.layer.n_heads);
  keys.add("attention.head_count_kv", m.layer.kv_heads());
  keys.add("attention.key_length", m.layer.head_columns());
  keys.add("attention.value_length", m.layer.head_columns());
  keys.add(key_of_eps(m), m.layer.eps);
  if (has_rotations(m)) add_rope(file, keys, m);
  if (architecture.write) architecture.write(keys, m);
}

// The numbers of a parameter that belong to a tensor.
struct WrittenPart {
  GgufPart place;
  std::span<const real> values;

  void fill(std::span<float> tensor) const {
    std::vector<real> pairs;
    std::span<const real> from = values;
    if (place.heads > 0) {
      pairs.resize(values.size());
      interleave_pairs(values, place.heads, values.size() / static_cast<std::size_t>(place.shape[0]), pairs);
      from = pairs;
    }
    const real offset = place.is_offset ? 1 : 0;
    std::ranges::transform(from, tensor.subspan(place.first).begin(),
                           [=](real value) { return static_cast<float>(value + offset); });
  }
};

// Refuses what llama.cpp would not read of this architecture, though gguf_config() would.
void check_read(const GgufArchitecture& architecture, const LanguageModelConfig& m) {
  const bool has_factors = has_rotations(m) && m.decoder.rope.scaling.kind == RotaryScale::llama3;
  const bool has_width = m.layer.head_columns() * m.layer.n_heads != m.layer.d_model;
  check<ArgumentError>(!has_factors || architecture.has_rope_factors, "gguf: rope_scaling: 'llama3' is nothing that '",
                       architecture.name, "' has");
  check<ArgumentError>(!has_width || architecture.has_head_width, "gguf: head_dim: heads of '", architecture.name,
                       "' are as wide as the model divided by their number");
  check<ArgumentError>(m.tie_output || !architecture.has_no_head, "gguf: tie_word_embeddings: the output layer of '",
                       architecture.name, "' is the embedding");
}

// An output layer of its own, which is the embedding once more.
bool repeats_embedding(const GgufArchitecture& architecture, const HfConfig& config) {
  return architecture.needs_head && config.model.tie_output;
}

// The tensors in the order of their first parameters.
void add_tensors(GgufBuilder& file, const GgufArchitecture& architecture, const HfConfig& config,
                 const Parameters& parameters) {
  const GgufTensors tensors(architecture, config.model, architecture.is_stacked);
  const WeightOptions options = weights_of(config);
  std::vector<std::string> names;
  std::map<std::string, std::vector<WrittenPart>> parts;
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (options.skip && options.skip(entry.name)) continue;
    std::span<const real> left = entry.tensor.values();
    for (const GgufPart& part : tensors.parts(entry)) {
      const auto size = static_cast<std::size_t>(part.shape.numel());
      if (!parts.contains(part.tensor)) names.push_back(part.tensor);
      parts[part.tensor].push_back({part, left.first(size)});
      left = left.subspan(size);
    }
  }
  if (repeats_embedding(architecture, config)) {
    names.emplace_back("output.weight");
    parts["output.weight"] = parts.at("token_embd.weight");
  }
  for (const std::string& name : names)
    file.add_tensor(name, parts.at(name)[0].place.whole, [written = parts.at(name)](std::span<float> to) {
      for (const WrittenPart& part : written) part.fill(to);
    });
}

// Whoever reads the file finds this config.
void check_said(const GgufBuilder& file, const GgufArchitecture& architecture, const HfConfig& config) try {
  HfConfig said = gguf_config(file);
  if (repeats_embedding(architecture, config)) said.model.tie_output = true;
  said.architecture = config.architecture;
  said.bos = config.bos;
  said.stops = config.stops;
  said.pad = config.pad;
  const json all = to_json(config), read = to_json(said);
  for (const auto& [key, value] : all.items())
    check<ArgumentError>(read.value(key, json()) == value, "gguf: ", printable(key), ": ", printable_json(value),
                         " is nothing that a file of this architecture has");
} catch (const FormatError& e) {
  fail<ArgumentError>("a file of this architecture cannot have this model: ", e.what());
}

}  // namespace

GgufBuilder gguf_of(const HfConfig& config, const Parameters& parameters) {
  const GgufArchitecture& architecture = architecture_for(config.architecture);
  check_read(architecture, config.model);
  GgufBuilder file;
  add_config(file, architecture, config.model);
  add_tensors(file, architecture, config, parameters);
  check_said(file, architecture, config);
  return file;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
