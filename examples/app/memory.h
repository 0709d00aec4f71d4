// How much memory a training will need, predicted before it is taken, and how much there is.
#pragma once

#include <seppo/nn/train/trainer.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

namespace examples {

// Bytes that this process may still take: the least of what the machine has to spare, and what the limits on its
// address space (ulimit -v) and on its control group leave. `root` is where proc and sys are found.
double available_memory(const std::filesystem::path& root = "/");

using Loss = std::function<seppo::ShardLoss(std::span<const int> rows)>;

// What training is going to take on top of the parameters' values, in bytes.
struct MemoryNeed {
  double parameters = 0;   // gradients, one block for each shard, and Adam's two moments
  double activations = 0;  // of the shards that run at once
  double evaluation = 0;   // of the examples that are evaluated at once, whose memory is not the same
  double total() const { return parameters + activations + evaluation; }
};

// For training on batches like this one, and evaluations of `evaluated` examples by each thread at a time, from forward
// and backward passes of a few examples. Only gradients change, and are zero at the end.
MemoryNeed predict_memory(seppo::Parameters& parameters, std::span<const int> batch, std::size_t evaluated,
                          const Loss& loss, const seppo::TrainerConfig& config = {});

// Throws std::runtime_error naming an option to lower, if that is more than there is.
void check_memory(const MemoryNeed& need, std::size_t batch_size);

// Of this process now.
double resident_memory();

// Of a model that there is memory to train.
std::size_t most_values();
[[noreturn]] void refuse_model(std::size_t most);

// The model of a config that has been checked. Throws std::runtime_error naming options to lower, if it is too large.
template <class Model, class Config>
Model build(seppo::Parameters& parameters, const Config& config) try {
  return Model(parameters.root(), config);
} catch (const seppo::ArgumentError&) {
  refuse_model(most_values());
}

}  // namespace examples
