// Metadata as a config: what all architectures have, and what their entries add.
#include "architectures.h"
#include "gguf_model.h"

#include "../hugging_face/families/family.h"

#include "../../autograd/core/check.h"
#include "../../nn/modules/positional_encoding.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

using Model = LanguageModelConfig;

int vocabulary_of(const GgufSource& file) {
  const GgufTensor* const embedding = file.find("token_embd.weight");
  const bool is_matrix = embedding && embedding->shape.size() == 2 && embedding->shape[0] <= 1 << 30;
  check<FormatError>(is_matrix, file.name(), ": has no matrix token_embd.weight");
  return static_cast<int>(embedding->shape[0]);
}

void read_heads(ModelKeys& keys, Model& m, bool may_share_keys) {
  m.layer.n_heads = keys.integer("attention.head_count");
  if (may_share_keys) {
    m.layer.n_kv_heads = keys.integer("attention.head_count_kv", m.layer.n_heads);
  } else {
    keys.require("attention.head_count_kv", m.layer.n_heads);
  }
}

void read_sizes(ModelKeys& keys, Model& m) {
  m.vocabulary = vocabulary_of(keys.file());
  m.layer.d_model = keys.integer("embedding_length");
  m.layer.d_ff = keys.integer("feed_forward_length");
  m.n_layers = keys.integer("block_count");
  m.max_length = keys.integer("context_length");
  m.layer.eps = keys.required(key_of_eps(m));
  keys.require("vocab_size", m.vocabulary);
  keys.require("attention.causal", true);
  const bool has_own_output = keys.has_tensor("output.weight");
  m.tie_output = !has_own_output && !m.decoder.output_bias;
}

// Returns the columns of a head.
int read_head_width(ModelKeys& keys, Model& m) {
  const int usual = m.layer.d_model / std::max(1, m.layer.n_heads);
  const int width = keys.integer("attention.key_length", usual);
  m.layer.head_width = std::int64_t{width} * m.layer.n_heads == m.layer.d_model ? 0 : width;
  keys.require("attention.value_length", width);
  return width;
}

// ---- rotary positions

// Of Llama 3.1 and later, which is not in the metadata: a tensor has the factor of each wavelength.
RotaryScaling llama3_scaling(const GgufSource& file, const GgufTensor& tensor, int columns, double theta) {
  check<FormatError>(tensor.numel() == static_cast<std::size_t>(columns / 2), file.name(), ": tensor ", kRopeFactors,
                     " has ", tensor.numel(), " numbers, not one for each pair of ", columns, " columns");
  std::vector<real> factors(tensor.numel());
  file.read(tensor, factors);
  RotaryScaling scaling{.kind = RotaryScale::llama3, .factor = 1, .original_length = 8192, .slow = 1, .fast = 4};
  scaling.factor = std::max<double>(1, std::ranges::max(factors));
  const std::vector<double> plain = rotary_angles(columns, theta).wavelengths;
  const std::vector<double> scaled = rotary_angles(columns, theta, scaling).wavelengths;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double factor{factors[i]};
    check<FormatError>(std::abs(scaled[i] / plain[i] - factor) < 1e-4 * factor, file.name(), ": tensor ", kRopeFactors,
                       " is not that of Llama 3.1, for texts of 8,192 tokens");
  }
  return scaling;
}

RotaryScaling read_scaling(ModelKeys& keys, const Model& m) {
  const nlohmann::json* const type = keys.find("rope.scaling.type");
  keys.find("rope.scaling.finetuned");                     // whether the model was trained so
  const double old = keys.number("rope.scale_linear", 1);  // the name of the factor before there were types
  const double factor = keys.number("rope.scaling.factor", old);
  RotaryScaling scaling{.kind = factor == 1 ? RotaryScale::none : RotaryScale::linear, .factor = factor};
  if (type && *type == "none") return {};
  if (type && *type == "yarn") {
    scaling.kind = RotaryScale::yarn;
    scaling.original_length = keys.number("rope.scaling.original_context_length", m.max_length);
    scaling.slow = keys.number("rope.scaling.yarn_beta_slow", 1);
    scaling.fast = keys.number("rope.scaling.yarn_beta_fast", 32);
    scaling.length = yarn_length(factor);
  } else if (type) {
    keys.require("rope.scaling.type", "linear");
  }
  return scaling;
}

// The share that gives this many columns of a head, though share * head_width may come out a little below them.
double share_of(int columns, int head_width) {
  double share = static_cast<double>(columns) / head_width;
  while (rotated_columns(share, head_width) < columns) share = std::nextafter(share, 2);
  return share;
}

void read_rope(ModelKeys& keys, Model& m, int head_width, bool is_partial) {
  const int columns = keys.integer("rope.dimension_count", head_width);
  if (!is_partial) keys.require("rope.dimension_count", head_width);
  m.rope_theta = keys.number("rope.freq_base", 10000);
  m.decoder.rope.scaling = read_scaling(keys, m);
  check<FormatError>(m.rope_theta >= 1 && columns > 0 && columns <= head_width && columns % 2 == 0, keys.file().name(),
                     ": rotary positions of ", columns, " columns with the base ", m.rope_theta, " are not supported");
  m.decoder.rope.share = share_of(columns, head_width);
  if (const GgufTensor* const factors = keys.file().find(kRopeFactors))
    m.decoder.rope.scaling = llama3_scaling(keys.file(), *factors, columns, m.rope_theta);
}

// ---- tokens

void read_tokens(const ModelKeys& keys, HfConfig& made) {
  const std::vector<int> bos = keys.tokens("tokenizer.ggml.bos_token_id", made.model.vocabulary);
  if (!bos.empty()) made.bos = bos[0];
  const auto add_stop = [&](int token) {
    if (std::ranges::find(made.stops, token) == made.stops.end()) made.stops.push_back(token);
  };
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    for (const int token : keys.tokens(key, made.model.vocabulary)) add_stop(token);
  const auto texts = keys.file().metadata().find("tokenizer.ggml.tokens");
  if (texts == keys.file().metadata().end() || !texts->is_array()) return;
  for (int token = 0; token < std::min(made.model.vocabulary, static_cast<int>(texts->size())); ++token) {
    const nlohmann::json& text = (*texts)[static_cast<std::size_t>(token)];
    if (text.is_string() && gguf_ends_text(text.get_ref<const std::string&>())) add_stop(token);
  }
}

}  // namespace

bool has_rotations(const Model& m) {
  return m.positions == Positions::rotary || m.positions == Positions::rotary_halves;
}

const char* key_of_eps(const Model& m) {
  return m.layer.norm_kind == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
}

HfConfig gguf_config(const GgufSource& file) {
  const GgufArchitecture& architecture = architecture_of(file);
  ModelKeys keys(file, architecture.name);
  HfConfig made{.architecture = architecture.family, .model = family_of(architecture.family).model};
  read_sizes(keys, made.model);
  read_heads(keys, made.model, has_kv_heads(architecture.family));
  const int head_width = read_head_width(keys, made.model);
  if (has_rotations(made.model)) read_rope(keys, made.model, head_width, architecture.is_partial);
  if (architecture.read) architecture.read(keys, made.model);
  keys.check_others();
  read_tokens(keys, made);
  try {
    check_config("the model", made.model);
  } catch (const ArgumentError& e) {
    fail<FormatError>(file.name(), ": ", e.what());
  }
  return made;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
