// LoRA (Hu et al. 2021): instead of a weight W [out, in], two low-rank matrices are trained, and W + alpha / r B A
// takes its place. B [out, r] starts at zero, so the model starts out unchanged.
//
//   const Adapters adapters(parameters, model, {.lora = 8});   // freezes all other parameters
//   Tensor logits = adapters.apply()(tokens);                  // with gradients for A and B alone
//   save_weights(file, parameters, {.values = adapters.merged()});
//   Adapters::read("tuned/adapter", parameters, model).merge();
//
// A folder stores the adapters alone in adapter.safetensors, as "lora.layers.0.self_attn.in_proj.a" and so on, and r
// and alpha in adapter.json.
#pragma once

#include "../nn/config.h"
#include "../nn/io/checkpoint.h"
#include "../nn/parameters.h"
#include "language_model.h"

#include <cstddef>
#include <filesystem>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct LoraConfig {
  int lora = 0;
  double alpha = 16;

  void fields(ConfigVisitor& v) {
    v("lora", lora, {0, 4096}, "rank of adapters to train beside the frozen model; 0 trains all of it");
    v("lora_alpha", alpha, {1e-6, 1e6}, "what the adapters' product is multiplied by, divided by the rank");
  }
};

class Adapters {
 public:
  // One adapter for each projection of the attention and the feed-forward networks. `model` must outlive the adapters.
  Adapters(Parameters& parameters, LanguageModel& model, const LoraConfig& config);

  // The model with adapters in its projections (Linear::adapter). It may be used by every thread and on any tape.
  LanguageModel apply() const;
  // The weights with the adapters added, to be saved as the model's own. The parameters must outlive it.
  ValuesOf merged() const;
  // Adds the adapters to the weights for good.
  void merge() const;

  // Writes into a folder that exists. Throws NumericError if an adapter is not finite, FileError.
  void save(const std::filesystem::path& folder) const;
  // What save() wrote, for this model, which must outlive the adapters. Throws FormatError naming the file if it is not
  // valid or for another model; FileError.
  static Adapters read(const std::filesystem::path& folder, Parameters& parameters, LanguageModel& model);

 private:
  LowRank adapter(std::size_t index) const;

  Parameters* parameters_;
  LanguageModel* model_;
  LoraConfig config_;
  std::vector<Tensor> a_;  // [r, in] of each projection
  std::vector<Tensor> b_;  // [out, r]
};

}  // namespace SEPPO_ABI
}  // namespace seppo
