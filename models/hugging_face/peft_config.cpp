// Reads and writes adapter_config.json: what changes the function of adapters is done or refused.
#include "peft_config.h"

#include "config_keys.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/json.h"
#include "../../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// How adapters were made or trained, or what the matrices tell as well.
const std::set<std::string_view> kWithoutEffect{"auto_mapping",
                                                "base_model_name_or_path",
                                                "corda_config",
                                                "ensure_weight_tying",
                                                "eva_config",
                                                "exclude_modules",
                                                "fan_in_fan_out",
                                                "inference_mode",
                                                "layers_pattern",
                                                "loftq_config",
                                                "layers_to_transform",
                                                "lora_dropout",
                                                "lora_ga_config",
                                                "megatron_core",
                                                "peft_version",
                                                "qalora_group_size",
                                                "r",
                                                "rank_pattern",
                                                "revision",
                                                "runtime_config",
                                                "target_modules"};
// What is read.
const std::set<std::string_view> kRead{"peft_type",  "task_type",     "lora_alpha",
                                       "use_rslora", "alpha_pattern", "init_lora_weights"};

void refuse_others(const ConfigKeys& keys, const json& all) {
  for (const auto& [key, value] : all.items()) {
    if (kWithoutEffect.contains(key) || kRead.contains(key)) continue;
    const bool is_off = value.is_null() || value == false || value == "none" || value.empty();
    check<FormatError>(is_off, keys.name(), ": '", printable(key), "': ", printable_json(value), " is not supported");
  }
}

double alpha_of(const ConfigKeys& keys, const std::string& key, double fallback) {
  const double alpha = keys.number(key, fallback);
  check<FormatError>(std::abs(alpha) <= 1e6 && std::abs(alpha) >= 1e-6, keys.name(), ": '", printable(key),
                     "': ", alpha, " is not within 1e-6 and 1e6");
  return alpha;
}

// Others are regular expressions.
bool is_name(const std::string& pattern) {
  const auto is_of_names = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '-'; };
  return !pattern.empty() && std::ranges::all_of(pattern, is_of_names);
}

std::map<std::string, double> read_alphas(const std::string& file, const json& all) {
  const ConfigKeys keys(file + ": 'alpha_pattern'", all);
  std::map<std::string, double> alphas;
  for (const auto& [pattern, value] : all.items()) {
    check<FormatError>(is_name(pattern), keys.name(), ": '", printable(pattern), "' is no name of a module");
    alphas[pattern] = alpha_of(keys, pattern, 0);
  }
  return alphas;
}

bool is_named(const std::string& module, const std::string& pattern) {
  return module == pattern || module.ends_with("." + pattern);
}

}  // namespace

double PeftConfig::scale(const std::string& module, int rank_of_module) const {
  double chosen = alpha;
  std::string by;
  for (const auto& [pattern, value] : alphas) {
    if (!is_named(module, pattern)) continue;
    check<FormatError>(by.empty(), name, ": 'alpha_pattern': '", by, "' and '", pattern, "' are both of ", module);
    chosen = value;
    by = pattern;
  }
  return chosen / (rslora ? std::sqrt(rank_of_module) : rank_of_module);
}

double PeftConfig::alpha_for(double scale, int rank_of_module) const {
  return scale * (rslora ? std::sqrt(rank_of_module) : rank_of_module);
}

PeftConfig read_peft_config(const std::filesystem::path& file) {
  const std::string name = printable_path(file);
  const json all = parse_python_json(read_text(file), name);
  const ConfigKeys keys(name, all);
  keys.one_of("peft_type", {"LORA"});
  keys.one_of("task_type", {"CAUSAL_LM"});
  refuse_others(keys, all);
  // With other beginnings, such as PiSSA's, peft changes the model's own weights, also when it loads adapters.
  keys.one_of("init_lora_weights", {true, false, "gaussian", "eva", "orthogonal"});
  PeftConfig config{.name = name, .alpha = alpha_of(keys, "lora_alpha", 8), .rslora = keys.flag("use_rslora", false)};
  if (keys.has("alpha_pattern")) config.alphas = read_alphas(name, all["alpha_pattern"]);
  return config;
}

json to_json(const PeftConfig& config) {
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", config.base.empty() ? json() : json(config.base)},
          {"r", config.rank},
          {"rank_pattern", config.ranks},
          {"lora_alpha", config.alpha},
          {"alpha_pattern", config.alphas},
          {"use_rslora", config.rslora},
          {"lora_dropout", 0.0},
          {"target_modules", config.targets},
          {"fan_in_fan_out", config.is_transposed},
          {"bias", "none"},
          {"inference_mode", true},
          {"modules_to_save", nullptr}};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
