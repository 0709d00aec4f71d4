// evaluate: sums of anything over examples, such as losses and exact answers, in eval mode.
//
//   const Sums sums = evaluate(validation, [&](std::span<const int> some) {
//     const Tensor logits = model(data.pick(some));
//     Sums found = classification_loss(logits, labels_of(some));  // "loss", "count" and "correct"
//     found.add("confident", confident_answers(logits));
//     return found;
//   });
//   const double loss = sums.mean("loss"), accuracy = sums.mean("correct");
//   const double confident = sums.mean("confident");  // sums["confident"] / sums["count"]
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/scoped_value.h"
#include "../../autograd/core/tape.h"
#include "data_parallel.h"

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Sums, each with a name: {{"loss", 12.5}, {"count", 10}, {"exact", 7}}.
class Sums {
 public:
  struct Named {
    std::string name;
    double value = 0;
  };

  Sums() = default;
  Sums(std::initializer_list<Named> sums);
  // A training loss: its sums "loss", "count" and "correct". Throws what numbers_of throws.
  Sums(const ShardLoss& loss);

  // Adds to the sum of this name, which is 0 at first.
  void add(std::string_view name, double value);
  // Throws ArgumentError if there is no sum of this name.
  double operator[](std::string_view name) const;
  // One sum divided by another: what `name` is on average.
  double mean(std::string_view name, std::string_view count = "count") const { return (*this)[name] / (*this)[count]; }

  // In the order in which the names were first added.
  const std::vector<Named>& all() const { return sums_; }

 private:
  const Named* find(std::string_view name) const;

  std::vector<Named> sums_;
};

// Calls f(some of the examples) in eval mode, for `chunk` examples at a time, on all threads, and adds up what it
// returns. The same bytes for any number of threads; ranks (ranks.h) share the chunks, and all get the sums. A name
// that is missing for some of the chunks counts as 0 there. A loss that compares examples with each other sees those of
// a chunk: let it be a batch. Throws ArgumentError for chunks of 0 examples, Interrupted after a signal
// that is caught (interrupts.h), and whatever `f` throws.
Sums evaluate(std::span<const int> examples, FunctionRef<Sums(std::span<const int> some)> f, std::size_t chunk = 64);

// While one is in scope, evaluate() computes on these tapes, one for each thread, instead of the threads' own: in
// memory that is there already, such as a trainer's between its steps. They behave as the threads' own in all else.
//
//   const UseTapes memory_of_steps(trainer.tapes());
class UseTapes {
 public:
  using Tapes = std::span<const std::unique_ptr<Tape>>;
  explicit UseTapes(Tapes tapes) : chosen_(chosen(), tapes) {}

  static Tapes& chosen();  // in the calling thread

 private:
  ScopedValue<Tapes> chosen_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
