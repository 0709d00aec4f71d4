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

// ---- the config ----------------------------------------------------------------------------------

// These keys of the architecture do not change what it computes.
const std::set<std::string_view> kHarmless{"llama.tensor_data_layout", "llama.pooling_type"};

// The keys that begin with "llama." or speak of tokens, without long lists.
ConfigKeys keys_of(const GgufFile& file) {
  json kept = json::object();
  for (const auto& [key, value] : file.metadata().items())
    if (!value.is_array() || key.starts_with("llama.")) kept[key] = value;
  return {file.name(), std::move(kept)};
}

void check_others(const GgufFile& file, const std::set<std::string>& read) {
  for (const auto& [key, value] : file.metadata().items()) {
    const bool is_of_model = key.starts_with("llama.") && !read.contains(key) && !kHarmless.contains(key);
    const bool is_off = value.is_null() || value == 0 || value == false;
    check<FormatError>(!is_of_model || is_off, file.name(), ": ", printable(key), ": ", printable(value.dump()),
                       " is not supported");
  }
}

int vocabulary_of(const GgufFile& file) {
  const GgufTensor* const embedding = file.find("token_embd.weight");
  const bool is_matrix = embedding && embedding->shape.size() == 2 && embedding->shape[0] <= 1 << 30;
  check<FormatError>(is_matrix, file.name(), ": has no matrix token_embd.weight");
  return static_cast<int>(embedding->shape[0]);
}

// The keys of the architecture, and which were read.
class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file), keys_(keys_of(file)) {}

  HfConfig read() {
    const json architecture = keys_.has("general.architecture") ? *keys_.find("general.architecture") : json();
    check<FormatError>(architecture == "llama", file_.name(),
                       ": general.architecture: ", printable(architecture.dump()), " is not supported; llama is");
    HfConfig made{.architecture = Architecture::llama, .model = {.layer = {.dropout = 0, .attention_dropout = 0}}};
    set_architecture(made.architecture, made.model);
    read_model(made.model);
    check_others(file_, read_);
    const int vocabulary = made.model.vocabulary;
    const std::vector<int> bos = keys_.tokens("tokenizer.ggml.bos_token_id", vocabulary);
    if (!bos.empty()) made.bos = bos[0];
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
      for (const int token : keys_.tokens(key, vocabulary))
        if (std::ranges::find(made.stops, token) == made.stops.end()) made.stops.push_back(token);
    try {
      check_config("the model", made.model);
    } catch (const ArgumentError& e) {
      fail<FormatError>(file_.name(), ": ", e.what());
    }
    return made;
  }

 private:
  void read_model(LanguageModelConfig& m) {
    m.vocabulary = vocabulary_of(file_);
    m.layer.d_model = integer("embedding_length");
    m.layer.d_ff = integer("feed_forward_length");
    m.n_layers = integer("block_count");
    m.max_length = integer("context_length");
    m.layer.n_heads = integer("attention.head_count");
    m.layer.n_kv_heads = integer("attention.head_count_kv", m.layer.n_heads);
    m.layer.eps = number("attention.layer_norm_rms_epsilon", 1e-5);
    m.rope_theta = number("rope.freq_base", 10000);
    m.tie_output = !file_.find("output.weight");
    require("vocab_size", m.vocabulary);
    const int width = m.layer.d_model / std::max(1, m.layer.n_heads);
    for (const char* key : {"rope.dimension_count", "attention.key_length", "attention.value_length"})
      require(key, width);
    require("rope.scaling.type", "none");
    require("rope.scale_linear", 1);
    require("rope.scaling.factor", 1);
  }

  std::string key(const char* name) {
    const std::string all = std::string("llama.") + name;
    read_.insert(all);
    return all;
  }
  int integer(const char* name, std::optional<int> fallback = {}) { return keys_.integer(key(name), fallback); }
  double number(const char* name, double fallback) { return keys_.number(key(name), fallback); }
  // The key, if it is there, has this value.
  void require(const char* name, const json& value) { keys_.one_of(key(name), json::array({value})); }

  const GgufFile& file_;
  ConfigKeys keys_;
  std::set<std::string> read_;
};

// ---- the weights ---------------------------------------------------------------------------------

// What llama.cpp calls Hugging Face's modules.
const std::map<std::string_view, std::string_view> kModules{
    {"embed_tokens", "token_embd"},   {"norm", "output_norm"},
    {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},   {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},    {"lm_head", "output"}};

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"
std::string gguf_name(std::string_view name) {
  constexpr std::string_view kModel = "model.", kLayers = "layers.", kWeight = ".weight";
  std::string block;
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  if (name.starts_with(kLayers)) {
    name.remove_prefix(kLayers.size());
    const std::size_t digits = name.find('.');
    block = "blk." + std::string(name.substr(0, digits)) + ".";
    name.remove_prefix(digits + 1);
  }
  name.remove_suffix(kWeight.size());
  return block + std::string(kModules.at(name)) + std::string(kWeight);
}

// llama.cpp has the rows of a head as pairs: row 2 i + j there is row j width / 2 + i here.
void separate_pairs(std::span<real> rows, std::size_t heads, std::size_t columns) {
  const std::vector<real> pairs(rows.begin(), rows.end());
  const std::size_t width = rows.size() / columns / heads;
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t row = 0; row < width; ++row) {
      const std::size_t to = row % 2 * (width / 2) + row / 2;
      const auto from = std::span(pairs).subspan((head * width + row) * columns, columns);
      std::ranges::copy(from, rows.begin() + static_cast<std::ptrdiff_t>((head * width + to) * columns));
    }
}

// Fills the parameters from the file, tensor by tensor.
class Loader {
 public:
  Loader(const GgufFile& file, const HfConfig& config) : file_(file), config_(config), options_(weights_of(config)) {}

  void load(Parameters& parameters) {
    for (const Parameters::Entry& entry : parameters.entries()) load(entry);
    for (const GgufTensor& tensor : file_.tensors())
      check<FormatError>(taken_.contains(tensor.name), file_.name(), ": the model has no tensor ",
                         printable(tensor.name));
    parameters.changed();
  }

 private:
  // The tensors of a stack, row after row.
  void load(const Parameters::Entry& entry) {
    const std::vector<std::string> names = options_.rename(entry.name);
    std::vector<int> shares(names.size(), 1);
    if (names.size() > 1 && options_.shares) shares = options_.shares(entry.name);
    const int parts = std::accumulate(shares.begin(), shares.end(), 0);
    std::span<real> left(entry.tensor.data(), entry.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Shape shape = entry.shape.with(0, entry.shape[0] / parts * shares[i]);
      const auto size = static_cast<std::size_t>(shape.numel());
      load(gguf_name(names[i]), shape, left.first(size));
      left = left.subspan(size);
    }
  }

  void load(const std::string& name, const Shape& shape, std::span<real> values) {
    const GgufTensor* const tensor = file_.find(name);
    check<FormatError>(tensor, file_.name(), ": has no tensor ", name);
    const std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
    check<FormatError>(tensor->shape == sizes, file_.name(), ": tensor ", name, " is ", json(tensor->shape).dump(),
                       ", ", json(sizes).dump(), " in the model");
    file_.read(*tensor, values);
    taken_.insert(name);
    const LayerConfig& layer = config_.model.layer;
    const auto columns = static_cast<std::size_t>(shape[shape.rank() - 1]);
    const int kv_heads = layer.n_kv_heads > 0 ? layer.n_kv_heads : layer.n_heads;
    if (name.ends_with("attn_q.weight")) separate_pairs(values, static_cast<std::size_t>(layer.n_heads), columns);
    if (name.ends_with("attn_k.weight")) separate_pairs(values, static_cast<std::size_t>(kv_heads), columns);
  }

  const GgufFile& file_;
  const HfConfig& config_;
  WeightOptions options_;
  std::set<std::string> taken_;
};

// What most of the weights are, if that is a type which is written.
WeightType type_of(const GgufFile& file) {
  std::map<std::string_view, std::uint64_t> bytes;
  for (const GgufTensor& tensor : file.tensors()) bytes[tensor.type] += tensor.bytes;
  if (2 * bytes["BF16"] > file.size()) return WeightType::bfloat16;
  if (2 * bytes["F16"] > file.size()) return WeightType::float16;
  return WeightType::real;
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

HfConfig gguf_config(const GgufFile& file) { return Reader(file).read(); }

Pretrained load_gguf(const std::filesystem::path& path, std::uint64_t seed) {
  const GgufFile file(path);
  const HfConfig config = gguf_config(file);
  auto parameters = std::make_unique<Parameters>(seed, 2 * file.size());  // two numbers a byte at most
  const auto build = [&] {
    const Parameters::Undrawn from_the_file(*parameters);
    try {
      return LanguageModel(parameters->root(), config.model);
    } catch (const ArgumentError& e) {
      fail<FormatError>(file.name(), ": ", e.what());
    }
  };
  LanguageModel model = build();
  Loader(file, config).load(*parameters);
  return {path, config, std::move(parameters), std::move(model), {}, type_of(file)};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
