// AttentionRecorder: keeps the weights of every attention, for people to look at.
//
//   AttentionRecorder recorder;
//   {
//     const Observe scope(recorder);
//     model.logits(src, tgt);
//   }
//   for (const AttentionMap& map : recorder.maps) ...     // "encoder.0.self_attn", "decoder.0.cross_attn", ...
//
// The weights are computed once more for it, and never without a recorder.
#pragma once

#include "../core/observer.h"
#include "../core/region.h"

#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct AttentionMap {
  std::string name;           // of the module that attends
  Shape shape;                // [sequences, heads, max queries, max keys]
  std::vector<real> weights;  // row-major, before dropout; zero beyond a sequence's own queries and keys
};

class AttentionRecorder : public Observer {
 public:
  bool wants_attention_weights() const override { return true; }
  void attention_weights(const Shape& shape, std::span<const real> weights) override {
    AttentionMap& map = maps.emplace_back();
    map.name = current_region().text();
    map.shape = shape;
    map.weights.assign(weights.begin(), weights.end());
  }

  std::vector<AttentionMap> maps;  // in the order of the calls
};

}  // namespace SEPPO_ABI
}  // namespace seppo
