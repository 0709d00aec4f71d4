// llama.cpp's names, and its order of rows, translated to Hugging Face's.
#include "gguf_model.h"

#include "../hugging_face/config_keys.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// An architecture of llama.cpp's, and ours.
struct Kind {
  std::string name;
  Architecture architecture;
  bool has_pairs = false;  // its rows of queries and keys are reordered
};

const Kind kKinds[] = {
    {"llama", Architecture::llama, /*has_pairs=*/true}, {"qwen2", Architecture::qwen2}, {"qwen3", Architecture::qwen3}};

const Kind& kind_of(const GgufFile& file) {
  const json name = file.metadata().value("general.architecture", json());
  const auto* const found = std::ranges::find_if(kKinds, [&](const Kind& kind) { return name == kind.name; });
  check<FormatError>(found != std::end(kKinds), file.name(), ": general.architecture: ", printable(name.dump()),
                     " is not supported; llama, qwen2 and qwen3 are");
  return *found;
}

// ---- the config ----------------------------------------------------------------------------------

int vocabulary_of(const GgufFile& file) {
  const GgufTensor* const embedding = file.find("token_embd.weight");
  const bool is_matrix = embedding && embedding->shape.size() == 2 && embedding->shape[0] <= 1 << 30;
  check<FormatError>(is_matrix, file.name(), ": has no matrix token_embd.weight");
  return static_cast<int>(embedding->shape[0]);
}

// Reads the keys of an architecture, "llama.block_count" and so on, and remembers which.
class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file), kind_(kind_of(file)), keys_(short_keys()) {}

  HfConfig read() {
    HfConfig made{.architecture = kind_.architecture, .model = {.layer = {.dropout = 0, .attention_dropout = 0}}};
    set_architecture(made.architecture, made.model);
    read_model(made.model);
    refuse_others();
    read_tokens(made);
    try {
      check_config("the model", made.model);
    } catch (const ArgumentError& e) {
      fail<FormatError>(file_.name(), ": ", e.what());
    }
    return made;
  }

 private:
  // Without the long lists of a tokenizer.
  ConfigKeys short_keys() const {
    json kept = json::object();
    for (const auto& [key, value] : file_.metadata().items())
      if (!value.is_array() || is_of_kind(key)) kept[key] = value;
    return {file_.name(), std::move(kept)};
  }

  void read_model(LanguageModelConfig& m) {
    m.vocabulary = vocabulary_of(file_);
    m.layer.d_model = integer("embedding_length");
    m.layer.d_ff = integer("feed_forward_length");
    m.n_layers = integer("block_count");
    m.max_length = integer("context_length");
    m.layer.n_heads = integer("attention.head_count");
    m.layer.n_kv_heads = integer("attention.head_count_kv", m.layer.n_heads);
    m.layer.eps = epsilon();
    m.rope_theta = keys_.number(key("rope.freq_base"), 10000);
    m.tie_output = !file_.find("output.weight");
    read_head_width(m);
    require("vocab_size", m.vocabulary);
    require("rope.scaling.type", "none");
    require("rope.scale_linear", 1);
    require("rope.scaling.factor", 1);
  }

  void read_head_width(LanguageModelConfig& m) {
    const int usual = m.layer.d_model / std::max(1, m.layer.n_heads);
    const int width = integer("attention.key_length", usual);
    m.layer.head_width = width == usual ? 0 : width;
    require("attention.value_length", width);
    require("rope.dimension_count", width);
  }

  void read_tokens(HfConfig& made) const {
    const std::vector<int> bos = keys_.tokens("tokenizer.ggml.bos_token_id", made.model.vocabulary);
    if (!bos.empty()) made.bos = bos[0];
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
      for (const int token : keys_.tokens(key, made.model.vocabulary))
        if (std::ranges::find(made.stops, token) == made.stops.end()) made.stops.push_back(token);
  }

  // What is neither read nor off may change what the model computes.
  void refuse_others() const {
    static const std::set<std::string_view> harmless{"tensor_data_layout", "pooling_type"};
    for (const auto& [key, value] : file_.metadata().items()) {
      if (!is_of_kind(key) || read_.contains(key)) continue;
      if (harmless.contains(std::string_view(key).substr(kind_.name.size() + 1))) continue;
      const bool is_off = value.is_null() || value == 0 || value == false;
      check<FormatError>(is_off, file_.name(), ": ", printable(key), ": ", printable(value.dump()),
                         " is not supported");
    }
  }

  bool is_of_kind(const std::string& key) const { return key.starts_with(kind_.name + "."); }

  std::string key(const char* name) {
    std::string all = kind_.name + "." + name;
    read_.insert(all);
    return all;
  }
  double epsilon() {
    const std::string name = key("attention.layer_norm_rms_epsilon");
    check<FormatError>(keys_.has(name), file_.name(), ": '", name, "' is missing");
    return keys_.number(name, 0);
  }
  int integer(const char* name, std::optional<int> fallback = {}) { return keys_.integer(key(name), fallback); }
  // The key, if it is there, has this value.
  void require(const char* name, const json& value) { keys_.one_of(key(name), json::array({value})); }

  const GgufFile& file_;
  const Kind& kind_;
  ConfigKeys keys_;
  std::set<std::string> read_;
};

// ---- the weights ---------------------------------------------------------------------------------

// What llama.cpp calls Hugging Face's modules.
const std::map<std::string_view, std::string_view> kModules{
    {"embed_tokens", "token_embd"},      {"norm", "output_norm"},
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},       {"lm_head", "output"}};

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"
std::string gguf_name(std::string_view name) {
  constexpr std::string_view kModel = "model.", kLayers = "layers.";
  std::string block;
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  if (name.starts_with(kLayers)) {
    name.remove_prefix(kLayers.size());
    const std::size_t digits = name.find('.');
    block = "blk." + std::string(name.substr(0, digits)) + ".";
    name.remove_prefix(digits + 1);
  }
  const std::size_t last = name.rfind('.');  // of ".weight" or ".bias"
  return block + std::string(kModules.at(name.substr(0, last))) + std::string(name.substr(last));
}

// Of a head, row 2 i + j in the file is row j width / 2 + i here.
void separate_pairs(std::span<real> rows, int heads, std::size_t columns) {
  const std::vector<real> pairs(rows.begin(), rows.end());
  const std::size_t width = rows.size() / columns / static_cast<std::size_t>(heads);
  for (std::size_t row = 0; row < rows.size() / columns; ++row) {
    const std::size_t in_head = row % width;
    const std::size_t to = row - in_head + in_head % 2 * (width / 2) + in_head / 2;
    const auto from = std::span(pairs).subspan(row * columns, columns);
    std::ranges::copy(from, rows.begin() + static_cast<std::ptrdiff_t>(to * columns));
  }
}

// The opposite.
void interleave_pairs(std::span<const real> rows, int heads, std::size_t columns, std::span<real> pairs) {
  const std::size_t width = rows.size() / columns / static_cast<std::size_t>(heads);
  for (std::size_t row = 0; row < rows.size() / columns; ++row) {
    const std::size_t in_head = row % width;
    const std::size_t from = row - in_head + in_head % 2 * (width / 2) + in_head / 2;
    const auto values = rows.subspan(from * columns, columns);
    std::ranges::copy(values, pairs.begin() + static_cast<std::ptrdiff_t>(row * columns));
  }
}

// The heads whose rows a weight has, if these are in pairs; 0 if it is another weight.
int heads_in_pairs(const Kind& kind, const LayerConfig& layer, const std::string& name) {
  if (!kind.has_pairs) return 0;
  if (name.ends_with("attn_q.weight")) return layer.n_heads;
  if (name.ends_with("attn_k.weight")) return layer.n_kv_heads > 0 ? layer.n_kv_heads : layer.n_heads;
  return 0;
}

// Calls f(name, shape, values) for the tensors that a parameter is of, row after row if they are a stack.
template <class F>
void for_each_tensor(const WeightOptions& options, const Parameters::Entry& entry, const F& f) {
  const std::vector<std::string> names = options.rename(entry.name);
  std::vector<int> shares(names.size(), 1);
  if (names.size() > 1) shares = options.shares(entry.name);
  const int parts = std::accumulate(shares.begin(), shares.end(), 0);
  std::span<real> left(entry.tensor.data(), entry.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Shape shape = entry.shape.with(0, entry.shape[0] / parts * shares[i]);
    const auto size = static_cast<std::size_t>(shape.numel());
    f(gguf_name(names[i]), shape, left.first(size));
    left = left.subspan(size);
  }
}

// Fills the parameters from the file, tensor by tensor.
class Loader {
 public:
  Loader(const GgufFile& file, const HfConfig& config)
      : file_(file), kind_(kind_of(file)), layer_(config.model.layer), options_(weights_of(config)) {}

  void load(Parameters& parameters) {
    for (const Parameters::Entry& entry : parameters.entries())
      for_each_tensor(options_, entry, [&](const std::string& name, const Shape& shape, std::span<real> values) {
        load(name, shape, values);
      });
    for (const GgufTensor& tensor : file_.tensors())
      check<FormatError>(taken_.contains(tensor.name), file_.name(), ": the model has no tensor ",
                         printable(tensor.name));
    parameters.changed();
  }

 private:
  void load(const std::string& name, const Shape& shape, std::span<real> values) {
    const GgufTensor* const tensor = file_.find(name);
    check<FormatError>(tensor, file_.name(), ": has no tensor ", name);
    const std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
    check<FormatError>(tensor->shape == sizes, file_.name(), ": tensor ", name, " is ", json(tensor->shape).dump(),
                       ", ", json(sizes).dump(), " in the model");
    file_.read(*tensor, values);
    taken_.insert(name);
    const int heads = heads_in_pairs(kind_, layer_, name);
    if (heads > 0) separate_pairs(values, heads, static_cast<std::size_t>(shape[1]));
  }

  const GgufFile& file_;
  const Kind& kind_;
  const LayerConfig& layer_;
  WeightOptions options_;
  std::set<std::string> taken_;
};

// What most of the weights are, if that is a type which is written.
WeightType type_of(const GgufFile& file) {
  std::map<std::string_view, std::uint64_t> bytes;
  for (const GgufTensor& tensor : file.tensors()) bytes[tensor.type] += tensor.bytes;
  if (2 * bytes["BF16"] > file.size()) return WeightType::bfloat16;
  if (2 * bytes["F16"] > file.size()) return WeightType::float16;
  return WeightType::own;
}

LanguageModel build(Parameters& parameters, const HfConfig& config, const GgufFile& file) {
  const Parameters::Undrawn from_the_file(parameters);
  try {
    return LanguageModel(parameters.root(), config.model);
  } catch (const ArgumentError& e) {
    fail<FormatError>(file.name(), ": ", e.what());
  }
}

// ---- writing -------------------------------------------------------------------------------------

const Kind& kind_for(Architecture architecture) {
  if (architecture == Architecture::mistral) architecture = Architecture::llama;
  const auto* const found =
      std::ranges::find_if(kKinds, [&](const Kind& kind) { return kind.architecture == architecture; });
  check<ArgumentError>(found != std::end(kKinds), "gguf: the architecture ",
                       enum_names(architecture)[static_cast<std::size_t>(architecture)],
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
  add("attention.head_count_kv", m.layer.n_kv_heads > 0 ? m.layer.n_kv_heads : m.layer.n_heads);
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

bool is_gguf(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

HfConfig gguf_config(const GgufFile& file) { return Reader(file).read(); }

Pretrained load_gguf(const std::filesystem::path& path, std::uint64_t seed) {
  const GgufFile file(path);
  const HfConfig config = gguf_config(file);
  auto parameters = std::make_unique<Parameters>(seed, 2 * file.size());  // two numbers a byte at most
  LanguageModel model = build(*parameters, config, file);
  Loader(file, config).load(*parameters);
  return {path, config, std::move(parameters), std::move(model), {}, type_of(file)};
}

GgufBuilder gguf_of(const HfConfig& config, const Parameters& parameters) {
  const Kind& kind = kind_for(config.architecture);
  check_written(config);
  GgufBuilder file;
  add_config(file, kind.name, config);
  const WeightOptions options = weights_of(config);
  const LayerConfig& layer = config.model.layer;
  const auto add = [&](const std::string& name, const Shape& shape, std::span<const real> values) {
    const std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
    const int heads = heads_in_pairs(kind, layer, name);
    const auto columns = static_cast<std::size_t>(sizes.back());
    file.add_tensor(name, sizes, [=](std::span<float> to) { fill(values, heads, columns, to); });
  };
  for (const Parameters::Entry& entry : parameters.entries())
    if (!options.skip || !options.skip(entry.name)) for_each_tensor(options, entry, add);
  return file;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
