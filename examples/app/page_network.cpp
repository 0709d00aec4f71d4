// Writes the parameters of a network for the report page.
#include "app/page_network.h"

#include <seppo/nn/io/base64.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

using nlohmann::json;

seppo::Tensor whole_table(const seppo::PositionalEncoding& positions) {
  if (positions.sinusoids) positions.sinusoids->compute_up_to(positions.max_positions);
  return positions.table;
}

std::string floats_in_base64(std::span<const seppo::real> values) {
  const std::vector<float> floats(values.begin(), values.end());
  return seppo::to_base64({reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)});
}

std::vector<seppo::real> values_of_entries(const seppo::Parameters& parameters) {
  std::vector<seppo::real> values;
  for (const seppo::Parameters::Entry& entry : parameters.entries())
    values.insert(values.end(), entry.tensor.values().begin(), entry.tensor.values().end());
  return values;
}

namespace {

// Are all heads as wide as the config says, without norms of their own and windows?
bool has_plain_attention(const json& config, const seppo::Parameters& parameters) {
  constexpr std::string_view kInput = ".in_proj.weight";
  const int heads = config.at("n_heads"), kv_heads = config.value("n_kv_heads", 0);
  const int own_width = config.value("head_width", 0), usual_width = config.at("d_model").get<int>() / heads;
  const int outputs = (own_width > 0 ? own_width : usual_width) * (heads + 2 * (kv_heads == 0 ? heads : kv_heads));
  for (const char* key : {"window", "softcap", "scale"})
    if (config.value(key, 0.0) != 0) return false;
  return std::ranges::all_of(parameters.entries(), [&](const seppo::Parameters::Entry& entry) {
    const bool is_unknown = entry.name.find(".q_norm.") != std::string::npos || entry.name.ends_with(".k_proj.weight");
    return !is_unknown && (!entry.name.ends_with(kInput) || entry.tensor.size(0) == outputs);
  });
}

}  // namespace

json to_json(const PageNetwork& network, const seppo::Parameters& parameters) {
  if (parameters.values().size() > kMostOnPage || !has_plain_attention(network.config, parameters)) return nullptr;
  json tensors = json::array();
  const auto add = [&](const std::string& name, const seppo::Tensor& tensor) {
    json shape = json::array();
    for (int axis = 0; axis < tensor.rank(); ++axis) shape.push_back(tensor.size(axis));
    tensors.push_back({name, shape});
  };
  for (const seppo::Parameters::Entry& entry : parameters.entries()) add(entry.name, entry.tensor);
  std::vector<seppo::real> values = values_of_entries(parameters);
  const bool is_learned = parameters.find("positions.weight") != nullptr;
  if (network.positions.defined() && !is_learned) {
    add("positions", network.positions);
    values.insert(values.end(), network.positions.values().begin(), network.positions.values().end());
  }
  return {
      {"config", network.config}, {"task", network.task}, {"tensors", tensors}, {"values", floats_in_base64(values)}};
}

}  // namespace examples
