// A projection here is one or several modules there: what each has in the file is checked before anything is built.
#include "peft.h"

#include "config_keys.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/checkpoint.h"
#include "../../nn/io/safetensors.h"
#include "../../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
constexpr const char* kPrefix = "base_model.model.";
constexpr const char* kA = ".lora_A.weight";
constexpr const char* kB = ".lora_B.weight";

// The modules of a projection, and the share of its rows that each has.
struct Modules {
  std::vector<std::string> names;
  std::vector<int> rows;
};

Modules modules_of(const std::string& path, int rows, const WeightOptions& options) {
  constexpr std::string_view kWeight = ".weight";
  const std::string parameter = path + std::string(kWeight);
  Modules modules;
  for (const std::string& name : options.rename(parameter))
    modules.names.push_back(kPrefix + name.substr(0, name.size() - kWeight.size()));
  const bool is_stack = modules.names.size() > 1;
  std::vector<int> shares(modules.names.size(), 1);
  if (is_stack && options.shares) shares = options.shares(parameter);
  const int parts = std::accumulate(shares.begin(), shares.end(), 0);
  for (const int share : shares) modules.rows.push_back(rows / parts * share);
  return modules;
}

// ---- writing -------------------------------------------------------------------------------------

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

bool is_transposed(const Adapters& adapters, const WeightOptions& options) {
  const std::string first = adapters.each().empty() ? "" : adapters.each()[0].path + ".weight";
  return !first.empty() && options.transpose && options.transpose(first);
}

json config_json(const Adapters& adapters, const WeightOptions& options, const std::set<std::string>& targets,
                 const std::string& base) {
  const LoraConfig& lora = adapters.config();
  const json of_base = base.empty() ? json() : json(base);
  return {{"peft_type", "LORA"}, {"task_type", "CAUSAL_LM"},  {"base_model_name_or_path", of_base},
          {"r", lora.lora},      {"lora_alpha", lora.alpha},  {"use_rslora", lora.rslora},
          {"lora_dropout", 0.0}, {"target_modules", targets}, {"fan_in_fan_out", is_transposed(adapters, options)},
          {"bias", "none"},      {"inference_mode", true},    {"modules_to_save", nullptr}};
}

}  // namespace

void save_peft(const fs::path& folder, const Adapters& adapters, const HfConfig& config, const std::string& base) {
  check<ArgumentError>(adapters.config().lora > 0, "adapters: those of several ranks are not written");
  const WeightOptions options = weights_of(config);
  std::set<std::string> targets;
  std::vector<TensorView> tensors;
  const auto add = [&](const std::string& name, std::span<const real> values, int rows, int columns) {
    const bool is_finite = std::ranges::all_of(values, [](real x) { return std::isfinite(x); });
    check<NumericError>(is_finite, "adapters: ", name, " is not finite; nothing was saved");
    const char* dtype = sizeof(real) == 4 ? "F32" : "F64";
    tensors.push_back({name, dtype, {rows, columns}, std::as_bytes(values)});
  };
  for (const Adapters::Adapter& adapter : adapters.each()) {
    const Tensor& a = adapter.low_rank->a;
    const Tensor& b = adapter.low_rank->b;
    const Modules modules = modules_of(adapter.path, b.size(0), options);
    const int rank = a.size(0);
    std::span<const real> left = b.values();
    for (std::size_t i = 0; i < modules.names.size(); ++i) {
      const auto size = static_cast<std::size_t>(modules.rows[i]) * static_cast<std::size_t>(rank);
      add(modules.names[i] + kA, a.values(), rank, a.size(1));
      add(modules.names[i] + kB, left.first(size), modules.rows[i], rank);
      left = left.subspan(size);
      targets.insert(last_part(modules.names[i]));
    }
  }
  write_safetensors(folder / kWeights, {{"format", "pt"}}, tensors);
  write_text(folder / kConfig, config_json(adapters, options, targets, base).dump(2) + "\n");
}

// ---- reading -------------------------------------------------------------------------------------

namespace {

// These say how adapters were made or trained; they do not change what the model computes with them.
const std::set<std::string_view> kHarmless{"auto_mapping",        "base_model_name_or_path",
                                           "corda_config",        "ensure_weight_tying",
                                           "eva_config",          "inference_mode",
                                           "init_lora_weights",   "layers_pattern",
                                           "layers_to_transform", "loftq_config",
                                           "lora_dropout",        "lora_ga_config",
                                           "peft_version",        "qalora_group_size",
                                           "rank_pattern",        "revision",
                                           "runtime_config",      "target_modules",
                                           "exclude_modules",     "fan_in_fan_out",
                                           "lora_dropout_layer",  "r"};

struct Scales {
  double alpha = 0;
  bool rslora = false;
  std::map<std::string, double> patterns = {};  // alpha of modules whose names end so

  double of(const std::string& module, int rank) const {
    double chosen = alpha;
    for (const auto& [pattern, value] : patterns)
      if (module.ends_with("." + pattern)) chosen = value;
    return chosen / (rslora ? std::sqrt(rank) : rank);
  }
};

bool is_plain(const std::string& pattern) {
  return !pattern.empty() && std::ranges::all_of(pattern, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-';
  });
}

void check_others(const ConfigKeys& keys, const json& all) {
  for (const auto& [key, value] : all.items()) {
    if (kHarmless.contains(key)) continue;
    const bool is_off = value.is_null() || value == false || value == "none" || value.empty();
    const bool is_known = key == "peft_type" || key == "task_type" || key == "lora_alpha" || key == "use_rslora" ||
                          key == "alpha_pattern";
    check<FormatError>(is_known || is_off, keys.name(), ": '", printable(key), "': ", printable(value.dump()),
                       " is not supported");
  }
}

Scales read_config(const fs::path& file) {
  const std::string name = printable_path(file);
  const json all = parse_python_json(read_text(file), name);
  const ConfigKeys keys(name, all);
  keys.one_of("peft_type", {"LORA"});
  keys.one_of("task_type", {"CAUSAL_LM"});
  check_others(keys, all);
  Scales scales{.alpha = keys.number("lora_alpha", 8), .rslora = keys.flag("use_rslora", false)};
  check<FormatError>(std::abs(scales.alpha) <= 1e6, name, ": 'lora_alpha': ", scales.alpha, " is too large");
  if (!keys.has("alpha_pattern")) return scales;
  const ConfigKeys patterns(name + ": 'alpha_pattern'", all["alpha_pattern"]);
  for (const auto& [pattern, value] : all["alpha_pattern"].items()) {
    check<FormatError>(is_plain(pattern), patterns.name(), ": '", printable(pattern), "' is no name of a module");
    scales.patterns[pattern] = patterns.number(pattern, 0);
    check<FormatError>(std::abs(scales.patterns[pattern]) <= 1e6, patterns.name(), ": '", printable(pattern),
                       "': ", scales.patterns[pattern], " is too large");
  }
  return scales;
}

// What a module has in the file.
struct Part {
  int rows = 0;
  Tensor a = {}, b = {};  // [r, in], [rows, r]; none without an adapter
  double scale = 1;

  int rank() const { return a.defined() ? a.size(0) : 0; }
};

// The modules of one projection, as one adapter.
struct Stack {
  std::vector<Part> parts;

  // All have the same A, as in what save_peft() writes.
  bool is_shared() const {
    return std::ranges::all_of(parts, [&](const Part& part) {
      return part.a.defined() && part.scale == scale() && std::ranges::equal(part.a.values(), parts[0].a.values());
    });
  }
  int rank() const {
    if (is_shared()) return parts[0].rank();
    int sum = 0;
    for (const Part& part : parts) sum += part.rank();
    return sum;
  }
  double scale() const {
    const auto first = std::ranges::find_if(parts, [](const Part& part) { return part.rank() > 0; });
    return first == parts.end() ? 1 : first->scale;
  }
  void copy_to(const LowRank& adapter) const {
    const bool shares = is_shared();
    std::size_t row = 0;
    std::size_t column = 0;
    for (const Part& part : parts) {
      if (part.rank() > 0) copy_part(part, adapter, row, column);
      row += static_cast<std::size_t>(part.rows);
      if (!shares) column += static_cast<std::size_t>(part.rank());
    }
  }

 private:
  // A below those of the parts before, and B where its rows meet these.
  void copy_part(const Part& part, const LowRank& adapter, std::size_t row, std::size_t column) const {
    const auto width = static_cast<std::size_t>(adapter.b.size(1));
    const auto rank = static_cast<std::size_t>(part.rank());
    const auto in = static_cast<std::size_t>(part.a.size(1));
    const auto factor = static_cast<real>(part.scale / scale());
    std::ranges::copy(part.a.values(), adapter.a.data() + column * in);
    for (std::size_t i = 0; i < part.b.values().size(); ++i)
      adapter.b.data()[(row + i / rank) * width + column + i % rank] = factor * part.b.values()[i];
  }
};

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

bool has_tensor(const SafeTensorsFile& file, const std::string& name) {
  return std::ranges::find(file.tensors(), name, &TensorInfo::name) != file.tensors().end();
}

// Places for what the file has of these modules.
Stack stack_of(const Modules& modules, int in, const SafeTensorsFile& file, const Scales& scales, Parameters& values) {
  const Scope s = values.root();
  Stack stack;
  for (std::size_t i = 0; i < modules.names.size(); ++i) {
    const std::string& module = modules.names[i];
    Part& part = stack.parts.emplace_back(Part{.rows = modules.rows[i]});
    if (!has_tensor(file, module + kA) && !has_tensor(file, module + kB)) continue;
    const int rank = rank_of(file, module + kA, in);
    part.a = s.parameter(module + kA, {rank, in}, init_zeros());
    part.b = s.parameter(module + kB, {part.rows, rank}, init_zeros());
    part.scale = scales.of(module, rank);
  }
  return stack;
}

}  // namespace

Adapters read_peft(const fs::path& folder, const HfConfig& config, Parameters& parameters, LanguageModel& model) try {
  const Scales scales = read_config(folder / kConfig);
  const WeightOptions options = weights_of(config);
  const SafeTensorsFile file(folder / kWeights);
  Parameters values(0, file.size());  // a small file cannot claim large adapters
  std::map<std::string, Stack> stacks;
  for_each_projection(model, [&](const std::string& path, const Linear& projection) {
    const Modules modules = modules_of(path, projection.weight.size(0), options);
    stacks[path] = stack_of(modules, projection.weight.size(1), file, scales, values);
  });
  load_weights(folder / kWeights, values);
  const auto size = [&](const std::string& path) {
    const Stack& stack = stacks.at(path);
    return Adapters::Size{stack.rank(), stack.scale()};
  };
  Adapters adapters(parameters, model, size);
  for (const Adapters::Adapter& adapter : adapters.each())
    if (adapter.low_rank) stacks.at(adapter.path).copy_to(*adapter.low_rank);
  parameters.changed();
  return adapters;
} catch (const ArgumentError& e) {  // more values than the file can have
  fail<FormatError>(printable_path(folder / kWeights), ": ", e.what());
}

bool has_peft(const fs::path& folder) { return fs::exists(folder / kConfig); }

}  // namespace SEPPO_ABI
}  // namespace seppo
