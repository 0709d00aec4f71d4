// Adapters do not change the model: apply() copies its modules, which share its weights, and adds adapters to them.
#include "lora.h"

#include "../autograd/core/printable.h"
#include "../autograd/ops.h"
#include "../nn/io/json.h"
#include "../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr const char* kScope = "lora";

template <class F>
void for_each_of(const std::string& path, FeedForward& ffn, const F& f) {
  if (ffn.gate) f(path + "gate", *ffn.gate);
  f(path + "up", ffn.up);
  f(path + "down", ffn.down);
}

// Calls f(path, projection) for each projection that has an adapter.
template <class F>
void for_each_projection(LanguageModel& model, const F& f) {
  for (std::size_t i = 0; i < model.layers.layers.size(); ++i) {
    DecoderBlock& layer = model.layers.layers[i];
    const std::string path = "layers." + std::to_string(i) + ".";
    f(path + "self_attn.in_proj", layer.self_attn.in_proj);
    f(path + "self_attn.out_proj", layer.self_attn.out_proj);
    if (layer.ffn) for_each_of(path + "ffn.", *layer.ffn, f);
    if (layer.experts)
      for (std::size_t e = 0; e < layer.experts->experts.size(); ++e)
        for_each_of(path + "ffn.experts." + std::to_string(e) + ".", layer.experts->experts[e], f);
  }
}

// W + scale B A
std::vector<real> sum_of(const Tensor& weight, const LowRank& adapter) {
  const Inference guard;
  const Tensor sum = weight + static_cast<real>(adapter.scale) * matmul(adapter.b, adapter.a);
  return {sum.values().begin(), sum.values().end()};
}

WeightOptions adapters_only() {
  return {.skip = [](const std::string& name) { return !name.starts_with(std::string(kScope) + "."); }};
}

}  // namespace

Adapters::Adapters(Parameters& parameters, LanguageModel& model, const LoraConfig& config)
    : parameters_(&parameters), model_(&model), config_(config) {
  parameters.freeze("");
  for_each_projection(model, [&](const std::string& path, const Linear& projection) {
    const int out = projection.weight.size(0);
    const int in = projection.weight.size(1);
    const Scope s = parameters.root() / kScope / path;
    a_.push_back(s.parameter("a", {config.lora, in}, init_normal(1 / std::sqrt(in))));
    b_.push_back(s.parameter("b", {out, config.lora}, init_zeros()));
  });
}

LowRank Adapters::adapter(std::size_t index) const {
  return {.a = a_[index], .b = b_[index], .scale = config_.alpha / config_.lora};
}

LanguageModel Adapters::apply() const {
  LanguageModel model = *model_;
  std::size_t index = 0;
  for_each_projection(model, [&](const std::string&, Linear& projection) { projection.adapter = adapter(index++); });
  return model;
}

void Adapters::merge() const {
  std::size_t index = 0;
  for_each_projection(*model_, [&](const std::string&, const Linear& projection) {
    std::ranges::copy(sum_of(projection.weight, adapter(index++)), projection.weight.data());
  });
  parameters_->changed();
}

ValuesOf Adapters::merged() const {
  struct Part {
    Tensor weight;
    LowRank adapter;
  };
  std::map<std::string, Part> parts;  // by the name of the weight
  std::size_t index = 0;
  for_each_projection(*model_, [&](const std::string&, const Linear& projection) {
    parts[*projection.weight.node().name()] = {projection.weight, adapter(index++)};
  });
  return [parts, sum = std::vector<real>()](const std::string& name) mutable -> std::span<const real> {
    const auto found = parts.find(name);
    if (found == parts.end()) return {};
    sum = sum_of(found->second.weight, found->second.adapter);
    return sum;
  };
}

void Adapters::save(const std::filesystem::path& folder) const {
  save_weights(folder / "adapter.safetensors", *parameters_, adapters_only());
  write_text(folder / "adapter.json", to_json_object(config_).dump(2) + "\n");
}

Adapters Adapters::read(const std::filesystem::path& folder, Parameters& parameters, LanguageModel& model) {
  const std::filesystem::path file = folder / "adapter.json";
  const std::string name = printable_path(file);
  const nlohmann::json object = parse_json(read_text(file), name);
  const auto adapters = [&] {
    try {
      const LoraConfig config = from_json_object<LoraConfig>(object);
      check<FormatError>(config.lora > 0, "'lora', the rank, is 0");
      return Adapters(parameters, model, config);
    } catch (const Error& e) {
      fail<FormatError>(name, ": ", e.what());
    }
  }();
  load_weights(folder / "adapter.safetensors", parameters, adapters_only());
  return adapters;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
