// Which rows of our projections are which rows of the file's modules is told in one layout, read in either direction.
#include "peft.h"

#include "peft_config.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/checkpoint.h"
#include "../../nn/io/safetensors.h"
#include "../../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kAdapterConfig = "adapter_config.json";
constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr const char* kPrefix = "base_model.model.";
constexpr const char* kA = ".lora_A.weight";
constexpr const char* kB = ".lora_B.weight";

// ---- the layout ----------------------------------------------------------------------------------

// Rows of a projection that are rows of a module: ours[i] is theirs[i].
struct Piece {
  std::string projection, module;
  std::vector<int> ours, theirs;
};

struct Size {
  int rows = 0, columns = 0;
};

struct Layout {
  std::vector<Piece> pieces;
  std::map<std::string, Size> projections, modules;
};

std::vector<int> consecutive(int begin, int count) {
  std::vector<int> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

// "model.layers.0.mlp.up_proj.weight" -> "model.layers.0.mlp.up_proj"
std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

void add_projection(Layout& layout, const std::string& path, Size size, const WeightOptions& options) {
  const std::string parameter = path + ".weight";
  const std::vector<std::string> tensors = options.rename(parameter);
  const TensorRows rows = options.rows(parameter);
  std::vector<int> shares(tensors.size(), 1);
  if (tensors.size() > 1) shares = options.shares(parameter);
  const int parts = std::accumulate(shares.begin(), shares.end(), 0);
  layout.projections[path] = size;
  int begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const int count = size.rows / parts * shares[i];
    const std::string module = module_of(tensors[i]);
    const bool is_ordered = !rows.order.empty();
    layout.modules[module] = {is_ordered ? rows.of : count, size.columns};
    layout.pieces.push_back({path, module, consecutive(begin, count), is_ordered ? rows.order : consecutive(0, count)});
    begin += count;
  }
}

Layout layout_of(LanguageModel& model, const WeightOptions& options) {
  Layout layout;
  for_each_projection(model, [&](const std::string& path, const Linear& projection) {
    add_projection(layout, path, {projection.weight.size(0), projection.weight.size(1)}, options);
  });
  return layout;
}

// ---- products ------------------------------------------------------------------------------------

// scale B A: [rows, rank] times [rank, columns]
struct LowRankProduct {
  int rank = 0;
  double scale = 1;
  std::vector<real> a = {}, b = {};
};
using Products = std::map<std::string, LowRankProduct>;

// Row from[i] of a product is to be row to[i] of another.
struct Rows {
  const LowRankProduct* product;
  std::span<const int> from, to;
};

void copy_rows(const Rows& part, std::size_t column, LowRankProduct& whole) {
  const auto rank = static_cast<std::size_t>(part.product->rank);
  const auto width = static_cast<std::size_t>(whole.rank);
  const auto factor = static_cast<real>(part.product->scale / whole.scale);
  for (std::size_t i = 0; i < part.from.size(); ++i)
    for (std::size_t k = 0; k < rank; ++k)
      whole.b[static_cast<std::size_t>(part.to[i]) * width + column + k] =
          factor * part.product->b[static_cast<std::size_t>(part.from[i]) * rank + k];
}

// One product of rows of several: with their A if all have the same, or else with all of them.
LowRankProduct assembled(std::vector<Rows> parts, int rows) {
  std::erase_if(parts, [](const Rows& part) { return part.product->rank == 0; });
  if (parts.empty()) return {};
  const LowRankProduct& first = *parts[0].product;
  const bool is_shared = std::ranges::all_of(
      parts, [&](const Rows& part) { return part.product->scale == first.scale && part.product->a == first.a; });
  LowRankProduct whole{.scale = first.scale};
  for (const Rows& part : std::span(parts).first(is_shared ? 1 : parts.size())) {
    whole.rank += part.product->rank;
    whole.a.insert(whole.a.end(), part.product->a.begin(), part.product->a.end());
  }
  whole.b.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(whole.rank));
  std::size_t column = 0;
  for (const Rows& part : parts) {
    copy_rows(part, column, whole);
    if (!is_shared) column += static_cast<std::size_t>(part.product->rank);
  }
  return whole;
}

// Those of the modules, from those of the projections.
Products to_modules(const Layout& layout, const Products& ours) {
  std::map<std::string, std::vector<Rows>> parts;
  for (const Piece& piece : layout.pieces)
    parts[piece.module].push_back({&ours.at(piece.projection), piece.ours, piece.theirs});
  Products theirs;
  for (const auto& [module, size] : layout.modules) theirs[module] = assembled(parts.at(module), size.rows);
  return theirs;
}

Products to_projections(const Layout& layout, const Products& theirs) {
  std::map<std::string, std::vector<Rows>> parts;
  for (const Piece& piece : layout.pieces)
    parts[piece.projection].push_back({&theirs.at(piece.module), piece.theirs, piece.ours});
  Products ours;
  for (const auto& [path, size] : layout.projections) ours[path] = assembled(parts.at(path), size.rows);
  return ours;
}

std::vector<real> copy_of(const Tensor& tensor) { return {tensor.values().begin(), tensor.values().end()}; }

// ---- writing -------------------------------------------------------------------------------------

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

TensorView tensor_of(const std::string& name, const std::vector<real>& values, int rows) {
  const bool is_finite = std::ranges::all_of(values, [](real x) { return std::isfinite(x); });
  check<NumericError>(is_finite, "adapters: ", name, " is not finite; nothing was saved");
  const std::int64_t columns = std::ssize(values) / rows;
  return {name, dtype_of(WeightType::own), {rows, columns}, std::as_bytes(std::span(values))};
}

void write_modules(const fs::path& file, const Layout& layout, const Products& modules) {
  std::vector<TensorView> tensors;
  for (const auto& [module, product] : modules) {
    tensors.push_back(tensor_of(kPrefix + module + kA, product.a, product.rank));
    tensors.push_back(tensor_of(kPrefix + module + kB, product.b, layout.modules.at(module).rows));
  }
  write_safetensors(file, {{"format", "pt"}}, tensors);
}

// Says what the modules have in common, and which have another rank, and so another alpha.
PeftConfig config_of(const LoraConfig& lora, const Products& modules, bool has_experts) {
  PeftConfig config{.rank = lora.lora, .alpha = lora.alpha, .rslora = lora.rslora};
  if (has_experts) {  // peft joins their modules, and then forgets the root of rsLoRA
    config.alpha = lora.scale() * lora.lora;
    config.rslora = false;
  }
  for (const auto& [module, product] : modules) {
    config.targets.insert(last_part(module));
    if (product.rank == lora.lora) continue;
    config.ranks[module] = product.rank;
    config.alphas[module] = config.alpha_for(product.scale, product.rank);
  }
  return config;
}

}  // namespace

void save_peft(const fs::path& folder, const Adapters& adapters, const HfConfig& config, const std::string& base) {
  check<ArgumentError>(adapters.config().lora > 0, "adapters: those of several sizes are not written");
  const WeightOptions options = weights_of(config);
  Layout layout;
  Products products;
  for (const Adapters::Adapter& adapter : adapters.each()) {
    const LowRank& low_rank = *adapter.low_rank;
    add_projection(layout, adapter.projection, {low_rank.b.size(0), low_rank.a.size(1)}, options);
    products[adapter.projection] = {low_rank.a.size(0), low_rank.scale, copy_of(low_rank.a), copy_of(low_rank.b)};
  }
  const Products modules = to_modules(layout, products);
  PeftConfig of_file = config_of(adapters.config(), modules, config.model.decoder.experts > 0);
  of_file.base = base;
  of_file.is_transposed = options.transpose && options.transpose("layers.0.ffn.up.weight");
  write_modules(folder / kAdapterWeights, layout, modules);
  write_text(folder / kAdapterConfig, to_json(of_file).dump(2) + "\n");
}

// ---- reading -------------------------------------------------------------------------------------

namespace {

bool has_tensor(const SafeTensorsFile& file, const std::string& name) {
  return std::ranges::find(file.tensors(), name, &TensorInfo::name) != file.tensors().end();
}

// The rank of a matrix A [r, in]; load_weights() checks all else.
int rank_of(const SafeTensorsFile& file, const std::string& name, int in) {
  constexpr std::int64_t kMost = 1 << 16;
  const auto tensor = std::ranges::find(file.tensors(), name, &TensorInfo::name);
  check<FormatError>(tensor != file.tensors().end(), file.name(), ": has no ", name);
  const std::vector<std::int64_t>& shape = tensor->shape;
  const bool has_rank = shape.size() == 2 && shape[0] > 0 && shape[0] <= kMost && shape[1] == in;
  check<FormatError>(has_rank, file.name(), ": ", name, " is ", json(shape).dump(), ", not [r,", in, "]");
  return static_cast<int>(shape[0]);
}

Products read_modules(const fs::path& path, const Layout& layout, const PeftConfig& config) {
  const SafeTensorsFile file(path);
  Parameters values(0, file.size());  // a small file cannot claim large adapters
  const Scope scope = values.root();
  std::map<std::string, std::pair<Tensor, Tensor>> matrices;
  for (const auto& [module, size] : layout.modules) {
    const std::string a = kPrefix + module + kA;
    const std::string b = kPrefix + module + kB;
    if (!has_tensor(file, a) && !has_tensor(file, b)) continue;
    const int rank = rank_of(file, a, size.columns);
    const Tensor left = scope.parameter(b, {size.rows, rank}, init_zeros());
    matrices[module] = {scope.parameter(a, {rank, size.columns}, init_zeros()), left};
  }
  load_weights(path, values);
  Products modules;
  for (const auto& [module, size] : layout.modules) modules[module] = {};
  for (const auto& [module, pair] : matrices) {
    const int rank = pair.first.size(0);
    modules[module] = {rank, config.scale(module, rank), copy_of(pair.first), copy_of(pair.second)};
  }
  return modules;
}

}  // namespace

Adapters read_peft(const fs::path& folder, const HfConfig& config, Parameters& parameters, LanguageModel& model) try {
  const PeftConfig of_file = read_peft_config(folder / kAdapterConfig);
  const Layout layout = layout_of(model, weights_of(config));
  const Products products = to_projections(layout, read_modules(folder / kAdapterWeights, layout, of_file));
  Adapters adapters(parameters, model, [&](const std::string& path) {
    return Adapters::Size{products.at(path).rank, products.at(path).scale};
  });
  for (const Adapters::Adapter& adapter : adapters.each()) {
    if (!adapter.low_rank) continue;
    std::ranges::copy(products.at(adapter.projection).a, adapter.low_rank->a.data());
    std::ranges::copy(products.at(adapter.projection).b, adapter.low_rank->b.data());
  }
  parameters.changed();
  return adapters;
} catch (const ArgumentError& e) {  // more values than the file can have
  fail<FormatError>(printable_path(folder / kAdapterWeights), ": ", e.what());
}

bool has_peft(const fs::path& folder) { return fs::exists(folder / kAdapterConfig); }

bool is_adapter_file(const std::string& name) {
  return name == kAdapterConfig || name == kAdapterWeights || name == "adapter.json" || name == "adapter.safetensors";
}

}  // namespace SEPPO_ABI
}  // namespace seppo
