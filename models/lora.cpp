// Adapters do not change the model: apply() copies its modules, which share its weights, and adds adapters to them.
#include "lora.h"

#include "../autograd/core/printable.h"
#include "../autograd/ops.h"
#include "../nn/io/json.h"
#include "../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr const char* kScope = "lora";

void for_each_of(const std::string& path, FeedForward& ffn, FunctionRef<void(const std::string&, Linear&)> f) {
  if (ffn.gate) f(path + "gate", *ffn.gate);
  f(path + "up", ffn.up);
  f(path + "down", ffn.down);
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

void for_each_projection(LanguageModel& model, FunctionRef<void(const std::string&, Linear&)> f) {
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

Adapters::Adapters(Parameters& parameters, LanguageModel& model, const LoraConfig& config)
    : Adapters(parameters, model, [&](const std::string&) {
        return Size{config.lora, config.scale()};
      }) {
  config_ = config;
}

Adapters::Adapters(Parameters& parameters, LanguageModel& model, const SizeOf& size)
    : parameters_(&parameters), model_(&model) {
  parameters.freeze("");
  for_each_projection(model, [&](const std::string& path, const Linear& projection) {
    Adapter& adapter = adapters_.emplace_back(Adapter{path, {}});
    const auto [rank, scale] = size(path);
    if (rank == 0) return;
    const int out = projection.weight.size(0);
    const int in = projection.weight.size(1);
    const Scope s = parameters.root() / kScope / path;
    const Tensor a = s.parameter("a", {rank, in}, init_normal(1 / std::sqrt(in)));
    const Tensor b = s.parameter("b", {out, rank}, init_zeros());
    adapter.low_rank = LowRank{.a = a, .b = b, .scale = scale};
  });
}

LanguageModel Adapters::apply() const {
  LanguageModel model = *model_;
  std::size_t index = 0;
  for_each_projection(
      model, [&](const std::string&, Linear& projection) { projection.adapter = adapters_[index++].low_rank; });
  return model;
}

void Adapters::merge() const {
  std::size_t index = 0;
  for_each_projection(*model_, [&](const std::string&, const Linear& projection) {
    const std::optional<LowRank>& low_rank = adapters_[index++].low_rank;
    if (low_rank) std::ranges::copy(sum_of(projection.weight, *low_rank), projection.weight.data());
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
    const std::optional<LowRank>& low_rank = adapters_[index++].low_rank;
    if (low_rank) parts[*projection.weight.node().name()] = {projection.weight, *low_rank};
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
  auto adapters = [&] {
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
