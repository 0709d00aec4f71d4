// The keys that say how layers differ: which of them see their input through a sliding window, and which have no rotary
// positions. Need n_layers before them in the table.
#pragma once

#include "keys.h"

#include <functional>

namespace seppo {
inline namespace SEPPO_ABI {

// One window for all layers, of 'sliding_window' positions; null for none. Without the key, `fallback`; 0: none.
Key window(int fallback);

// WindowedLayers in some layers only.
struct WindowedLayers {
  bool has_switch = false;  // 'use_sliding_window' must be true for any
  int usual_window = 4096;  // without 'sliding_window'
  // Whether a layer has a window, if 'layer_types' does not say so; the model has what was read before.
  std::function<bool(const ConfigKeys& keys, const LanguageModelConfig& model, int layer)> is_windowed;
  LayerPositions windowed = LayerPositions::common;  // of layers with a window
};
Key windows_by_layer(const WindowedLayers& options);

// 'no_rope_layers', 0 for each layer without rotary positions; without the key, every 'no_rope_layer_interval'th.
Key layers_without_rope();

}  // namespace SEPPO_ABI
}  // namespace seppo
