// sliding_window, layer_types and no_rope_layers.
#include "layer_keys.h"

#include "../../../autograd/core/check.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;
using Model = LanguageModelConfig;

namespace {

constexpr const char* kTypes = "layer_types";
constexpr const char* kWindow = "sliding_window";
constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";
constexpr const char* kNoRope = "no_rope_layers";
constexpr int kMostLayers = 1000;

// One entry for each layer, which check_config() bounds only later.
std::vector<LayerAttention>& attentions_of(const ConfigKeys& keys, Model& m) {
  check<FormatError>(m.n_layers <= kMostLayers, keys.name(), ": ", m.n_layers, " layers are more than ", kMostLayers);
  m.decoder.attentions.resize(static_cast<std::size_t>(m.n_layers));
  return m.decoder.attentions;
}

// Nothing, if all layers are as usual.
void simplify(Model& m) {
  const auto is_usual = [](const LayerAttention& a) { return a.window == 0 && a.positions == LayerPositions::common; };
  if (std::ranges::all_of(m.decoder.attentions, is_usual)) m.decoder.attentions.clear();
}

// The values of a list with one for each layer, of which there are two kinds.
std::vector<bool> read_list(const ConfigKeys& keys, const char* name, int n_layers, const json& yes, const json& no) {
  const json& list = *keys.find(name);
  check<FormatError>(list.is_array() && std::ssize(list) == n_layers, keys.name(), ": '", name, "' is no list of ",
                     n_layers, " layers");
  std::vector<bool> values;
  for (const json& value : list) {
    check<FormatError>(value == yes || value == no, keys.name(), ": '", name, "' has a value that is neither ",
                       yes.dump(), " nor ", no.dump());
    values.push_back(value == yes);
  }
  return values;
}

int window_of(const Model& m) {
  int window = 0;
  for (const LayerAttention& a : m.decoder.attentions) window = std::max(window, a.window);
  return window;
}

json null_if_zero(int value) {
  if (value == 0) return nullptr;
  return value;
}

// The window of a file: null is none, but a missing key is `usual`.
int read_window(const ConfigKeys& keys, int usual) {
  const json* const said = keys.find(kWindow);
  if (!said) return usual;
  if (said->is_null()) return 0;
  const int window = keys.integer(kWindow);
  check<FormatError>(window > 0, keys.name(), ": '", kWindow, "' is 0");
  return window;
}

std::vector<bool> windowed_layers(const ConfigKeys& keys, const WindowedLayers& options, const Model& m) {
  std::vector<bool> usual;
  for (int i = 0; i < m.n_layers; ++i) usual.push_back(options.is_windowed(keys, m, i));
  return keys.has(kTypes) ? read_list(keys, kTypes, m.n_layers, kSliding, kFull) : usual;
}

}  // namespace

Key window(int fallback) {
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    const int window = read_window(keys, fallback);
    for (LayerAttention& a : attentions_of(keys, m)) a.window = window;
    simplify(m);
  };
  return {read, [](json& all, const Model& m) { all[kWindow] = null_if_zero(window_of(m)); }};
}

Key windows_by_layer(const WindowedLayers& options) {
  const auto read = [=](const ConfigKeys& keys, Model& m) {
    std::vector<LayerAttention>& attentions = attentions_of(keys, m);
    const bool is_on = !options.has_switch || keys.flag("use_sliding_window", false);
    int window = read_window(keys, options.usual_window);
    if (!is_on) window = 0;
    const std::vector<bool> windowed = windowed_layers(keys, options, m);
    for (std::size_t i = 0; i < windowed.size(); ++i) {
      if (!windowed[i]) continue;
      check<FormatError>(window > 0 || !keys.has(kTypes), keys.name(), ": '", kTypes, "': layer ", i,
                         " has a window, but there is no '", kWindow, "'");
      attentions[i].window = window;
      if (options.windowed != LayerPositions::common) attentions[i].positions = options.windowed;
    }
    simplify(m);
  };
  const auto write = [=](json& all, const Model& m) {
    const int window = window_of(m);
    // Without a switch Hugging Face's models need a number, even for no layer.
    all[kWindow] = null_if_zero(window == 0 && !options.has_switch ? options.usual_window : window);
    if (options.has_switch) all["use_sliding_window"] = window > 0;
    all[kTypes] = json::array();
    for (int i = 0; i < m.n_layers; ++i) all[kTypes].push_back(m.decoder.attention(i).window > 0 ? kSliding : kFull);
  };
  return {read, write};
}

Key layers_without_rope() {
  const auto read = [](const ConfigKeys& keys, Model& m) {
    std::vector<LayerAttention>& attentions = attentions_of(keys, m);
    const int interval = std::max(1, keys.integer("no_rope_layer_interval", 4));
    std::vector<bool> has(attentions.size());
    for (std::size_t i = 0; i < has.size(); ++i) has[i] = (i + 1) % static_cast<std::size_t>(interval) != 0;
    if (keys.has(kNoRope)) has = read_list(keys, kNoRope, m.n_layers, 1, 0);
    for (std::size_t i = 0; i < has.size(); ++i)
      if (!has[i]) attentions[i].positions = LayerPositions::none;
    simplify(m);
  };
  const auto write = [](json& all, const Model& m) {
    all[kNoRope] = json::array();
    for (int i = 0; i < m.n_layers; ++i)
      all[kNoRope].push_back(m.decoder.attention(i).positions == LayerPositions::none ? 0 : 1);
  };
  return {read, write};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
