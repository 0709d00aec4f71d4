// TrainingConfig: what decides the bytes of a training run, besides its data and model.
#pragma once

#include "../data/sampler.h"
#include "../train/trainer.h"

#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

struct TrainingConfig {
  int epochs = 10;
  int max_steps = 0;           // 0: no limit
  int eval_interval = 1;       // epochs between evaluations
  std::string best = "loss";   // whose model is kept: "loss", "last", or "exact" for the measure "val_exact"
  int average = 1;             // at the end, the mean of the models of this many last evaluations is tried
  SamplerConfig sampler = {};  // its seed is the trainer's
  TrainerConfig trainer = {};  // its steps are those of all epochs

  void fields(ConfigVisitor& v);
  void validate() const;

  // With what one of the two decides for the other.
  SamplerConfig complete_sampler() const;
  TrainerConfig complete_trainer(std::int64_t steps) const;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
