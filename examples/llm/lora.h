// LoRA (Hu et al. 2021): instead of a weight W [out, in], two narrow matrices are trained, and W + alpha / r B A takes
// its place. B [out, r] begins as zeros, so that the model is at first what it was.
//
//   const Adapters adapters(parameters, model, {.lora = 8});   // freezes all other parameters
//   Tensor logits = adapters.apply()(tokens);                  // with gradients for A and B alone
//   adapters.merge();                                          // from now on the model itself
//
// A folder has them alone in adapter.safetensors, as "lora.layers.0.self_attn.in_proj.a" and so on, and r and alpha in
// adapter.json.
#pragma once

#include <seppo/models/language_model.h>

#include <filesystem>
#include <vector>

namespace llm {

struct LoraConfig {
  int lora = 0;
  double alpha = 16;

  void fields(seppo::ConfigVisitor& v) {
    v("lora", lora, {0, 4096}, "rank of adapters to train beside the frozen model; 0 trains all of it");
    v("lora_alpha", alpha, {1e-6, 1e6}, "what the adapters' product is multiplied by, divided by the rank");
  }
};

class Adapters {
 public:
  // One for each projection of the attention and the feed-forward networks. `model` must outlive them.
  Adapters(seppo::Parameters& parameters, seppo::LanguageModel& model, const LoraConfig& config);

  // The model with adapted weights, which are of the calling thread's tape.
  seppo::LanguageModel apply() const;
  // Adds them to the weights.
  void merge() const;

  void save(const std::filesystem::path& folder) const;
  // Throws seppo::FormatError if they are of another model or rank; seppo::FileError.
  void load(const std::filesystem::path& folder) const;
  // Of the adapters in a folder.
  static LoraConfig read_config(const std::filesystem::path& folder);

 private:
  seppo::Tensor adapted(std::size_t index, const seppo::Tensor& weight) const;

  seppo::Parameters* parameters_;
  seppo::LanguageModel* model_;
  LoraConfig config_;
  std::vector<seppo::Tensor> a_, b_;
};

}  // namespace llm
