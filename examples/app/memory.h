// How much memory a training run will need, predicted before it is allocated, and how much there is.
#pragma once

#include "app/command_line.h"

#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

namespace examples {

// Bytes that this process may still allocate: what is free on the machine, or what the limit on its address space
// (ulimit -v) leaves, if that is less. `root` is where proc is found.
double available_memory(const std::filesystem::path& root = "/");

using Loss = std::function<seppo::ShardLoss(std::span<const int> rows)>;

// What training will allocate in addition to the parameters' values, in bytes.
struct MemoryNeed {
  double parameters = 0;   // gradients, at most one block per shard, and Adam's two moments
  double activations = 0;  // of the shards that run at once
  double evaluation = 0;   // of the examples that are evaluated at once, in the same memory
  double shard = 0;        // the activations of one thread
  double total() const { return parameters + std::max(activations, evaluation); }
};

// For training on batches like this one, with each thread evaluating `evaluated` examples at a time. Measured by
// forward and backward passes of a few examples. Changes only the gradients, which are zero afterwards.
MemoryNeed predict_memory(seppo::Parameters& parameters, std::span<const int> batch, std::size_t evaluated,
                          const Loss& loss, const seppo::TrainerConfig& config = {});

// Throws std::runtime_error naming an option to lower, if there is less memory than that.
void check_memory(const MemoryNeed& need, std::size_t batch_size);

// The memory that this process uses now, in bytes.
double resident_memory();
// The most that it has used, in megabytes; 0 if /proc does not say.
double peak_rss_mb();

// The most parameter values that a model can have if there is to be enough memory to train it.
std::size_t most_values();
[[noreturn]] void refuse_model(std::size_t most);

// The model for a config that has been checked. Throws std::runtime_error naming options to lower, if it is too large;
// UsageError for options that do not fit each other.
template <class Model, class Config>
Model build(seppo::Parameters& parameters, const Config& config) try {
  return Model(parameters.root(), config);
} catch (const seppo::ModelSizeError&) {
  refuse_model(most_values());
} catch (const seppo::ArgumentError& e) {
  throw UsageError(e.what());
}

}  // namespace examples
