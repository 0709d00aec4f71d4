// Sampler: chooses the examples of each training step.
//
// An epoch is one pass over the examples, shuffled by seed and epoch, or in order. With the length of each example,
// batches group examples of similar length, so that the shards of a batch take equal time: the shuffled order is
// sorted within pools of 50 batches, then the batches are shuffled again. Each example occurs once per epoch, but for
// the last ones of the shuffle, which are left out if they do not fill a batch. An epoch that takes few of many
// examples (epoch_steps) needs memory for these alone. The order of more than 2^27 examples without lengths is not
// stored but computed, batch by batch (permutation.h): endless data may have as many examples as there are indices.
//
// Batches may also be measured in tokens (batch_tokens), so that steps of short and of long examples take equal time:
// all examples are sorted by length, those of equal length in the shuffled order, and cut where the next one would not
// fit; then the batches are shuffled. Each example occurs once per epoch; one that is longer is a batch by itself.
//
// The n-th batch is a function of the config and n alone: a training resumes with seek().
#pragma once

#include "../../autograd/core/check.h"
#include "../../autograd/core/random.h"
#include "../config.h"

#include <cstdint>
#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct SamplerConfig {
  int batch_size = 64;  // reduced to the number of examples if larger
  int batch_tokens = 0;
  int epoch_steps = 0;
  bool in_order = false;
  std::uint64_t seed = 0;  // not a field: programs have one seed, the trainer's

  void fields(ConfigVisitor& v) {
    v("batch_size", batch_size, {1, 1e6}, "examples in a step");
    v("batch_tokens", batch_tokens, {0, 1e6},
      "instead of --batch-size, as many examples in a step as have together at most this many tokens; 0: no",
      {.may_be_missing = true});
    v("epoch_steps", epoch_steps, {0, 1e9}, "end epochs after this many steps; 0 for one pass over the training data");
    v("in_order", in_order, "take the examples in the same order in every epoch");
  }
  void validate() const {
    check<ArgumentError>(batch_tokens == 0 || !in_order,
                         "batch_tokens sorts the examples by length, and in_order keeps their order");
  }
};

class Sampler {
 public:
  // `lengths` is empty or has the length of each example. Throws ArgumentError for no examples, more than 2^31 - 1, a
  // config out of range, or batch_tokens without lengths, ShapeError for another number of lengths.
  Sampler(std::size_t examples, const SamplerConfig& config, std::vector<int> lengths = {});

  // The examples of the next batch, in 0..examples-1; valid until the next call.
  std::span<const int> next();

  std::int64_t batches_per_epoch() const { return batches_; }
  // The epoch of the batch that next() returned last, from 1; 0 before the first batch.
  std::int64_t epoch() const { return (drawn_ + batches_ - 1) / batches_; }
  // Continues as if this many batches had been drawn since the start. Throws ArgumentError if negative or above 2^62.
  void seek(std::int64_t batches);

 private:
  void cut_by_tokens();
  void draw_order(std::int64_t epoch);
  void sort_by_length(std::size_t pool);
  void compute_batch(std::int64_t epoch, std::int64_t batch);

  SamplerConfig config_;
  std::vector<int> lengths_;
  std::size_t examples_, batch_;
  std::int64_t batches_;  // in an epoch
  bool takes_few_;        // an epoch has few of the examples
  bool computes_;         // one batch after another, instead of storing an epoch's order
  std::int64_t drawn_ = 0;
  std::int64_t order_epoch_ = 0;   // of order_; 0: none yet
  std::vector<int> order_;         // of the epoch or, if computes_, of the batch
  std::vector<int> places_;        // with lengths: which batch of order_ comes 1st, 2nd ...
  std::vector<std::size_t> cuts_;  // of batches measured in tokens: where each begins, and the end
};

}  // namespace SEPPO_ABI
}  // namespace seppo
