// A decoder-only Transformer over characters: its options, loss, score and samples.
#pragma once

#include "charlm/text.h"

#include <seppo/models/language_model.h>
#include <seppo/models/decoding/sampling.h>
#include <seppo/nn/train/data_parallel.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <span>
#include <string>

namespace charlm {

// The defaults are nanoGPT's for a CPU.
struct ModelOptions {
  int d_model = 128, n_heads = 4, n_layers = 4;
  int block = 64;  // characters the model sees at once
  double dropout = 0;

  nlohmann::json to_json() const;
  static ModelOptions from_json(const nlohmann::json& config);
  seppo::LanguageModelConfig model(int vocabulary) const;
};

// The loss of predicting each next character in windows that begin at `starts`, summed.
seppo::ShardLoss loss(const seppo::LanguageModel& model, std::span<const int> text, std::span<const int> starts);

// Mean loss over windows one after another, in nats per character.
double score(const seppo::LanguageModel& model, std::span<const int> text);

// Draws `count` characters that follow `text`, one by one, and gives each to `emit`.
void sample(const seppo::LanguageModel& model, std::vector<int> text, int count, const seppo::SamplingOptions& options,
            seppo::RandomStream random, const std::function<void(int)>& emit);

}  // namespace charlm
