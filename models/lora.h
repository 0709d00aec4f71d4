// LoRA (Hu et al. 2021): instead of a weight W [out, in], two low-rank matrices are trained, and W + alpha / r B A
// takes its place. B [out, r] starts at zero, so the model starts out unchanged; A [r, in] is drawn from a normal
// distribution with deviation 1 / sqrt(in).
//
//   const Adapters adapters(parameters, model, {.lora = 8});   // freezes all other parameters
//   Tensor logits = adapters.apply()(tokens);                  // with gradients for A and B alone
//   save_weights(file, parameters, {.values = adapters.merged()});
//   Adapters::read("tuned/adapter", parameters, model).merge();
//
// A folder stores the adapters alone in adapter.safetensors, as "lora.layers.0.self_attn.in_proj.a" and so on, and r
// and alpha in adapter.json. hugging_face/peft.h reads and writes the format of the Python package peft.
#pragma once

#include "../autograd/core/function_ref.h"
#include "../nn/config.h"
#include "../nn/io/checkpoint.h"
#include "../nn/parameters.h"
#include "language_model.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct LoraConfig {
  int lora = 0;
  double alpha = 16;
  bool rslora = false;

  void fields(ConfigVisitor& v) {
    v("lora", lora, {0, 4096}, "rank of adapters to train beside the frozen model; 0 trains all of it");
    v("lora_alpha", alpha, {1e-6, 1e6}, "what the adapters' product is multiplied by, divided by the rank");
    v("rslora", rslora, "divide by the square root of the rank instead", {.may_be_missing = true});
  }
  double scale() const { return alpha / (rslora ? std::sqrt(lora) : lora); }  // rsLoRA: Kalajdzievski 2023
};

class Adapters {
 public:
  // One adapter for each projection of the attention and the feed-forward networks. `model` must outlive the adapters.
  Adapters(Parameters& parameters, LanguageModel& model, const LoraConfig& config);

  // Of one projection, such as "layers.0.ffn.up".
  struct Size {
    int rank = 0;  // 0: no adapter
    double scale = 1;
  };
  using SizeOf = std::function<Size(const std::string& projection)>;
  // Those of the sizes asked for.
  Adapters(Parameters& parameters, LanguageModel& model, const SizeOf& size);

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

  struct Adapter {
    std::string projection;
    std::optional<LowRank> low_rank;
  };
  const std::vector<Adapter>& each() const { return adapters_; }  // of each projection of the model
  const LoraConfig& config() const { return config_; }            // its rank is 0 if sizes differ

 private:
  Parameters* parameters_;
  LanguageModel* model_;
  LoraConfig config_;
  std::vector<Adapter> adapters_;
};

// Calls f(path, projection) for each projection that may have an adapter.
void for_each_projection(LanguageModel& model, FunctionRef<void(const std::string& path, Linear& projection)> f);

}  // namespace SEPPO_ABI
}  // namespace seppo
