// StepModel: what generate() and beam_search() need of a model, as functions; any model that continues texts has it.
//
//   const Inference inference;
//   const Tensor memory = t5.encode(src);
//   KeyValueCache cache = t5.make_cache(src.size());
//   const StepModel steps{
//       .scores = [&](const Ragged& unread) { return last_rows(t5.decode(unread, memory, &cache), unread.offsets); },
//       .select = [&](std::span<const int> parents, Offsets sources) { cache.select(parents, sources); }};
//   const auto found = beam_search(steps, starts, {.eos = 1});
//
// A LanguageModel and a Transformer are made into one by step_model(), in generate.h and beam.h.
#pragma once

#include "../../autograd/ops.h"
#include "../../nn/data/ragged.h"

#include <cstddef>
#include <functional>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// It has a text for each prompt at first, and has read nothing of any. Both functions are called in turn, within a
// TapeMark of their own: what they keep between calls, such as a KeyValueCache, is no tensor of the tape.
struct StepModel {
  // Reads on: of each text, the tokens that it has not read yet. Returns the scores of the token that comes next,
  // [texts, vocabulary].
  std::function<Tensor(const Ragged& unread)> scores = {};
  // The texts become copies of texts[parents[i]]; sources[p] .. sources[p + 1] - 1 are those of prompt p. A parent may
  // occur several times, or not at all.
  std::function<void(std::span<const int> parents, Offsets sources)> select = {};
  // The most tokens of a text that can be read, 0 for any number, and what makes it forget a text. With both,
  // generate() slides its window over longer texts.
  int window = 0;
  std::function<void(std::size_t text)> restart = {};
};

// The last row of each sequence of x [rows, n]: [sequences, n]. Throws ShapeError if the offsets do not end with the
// rows, or for a sequence without rows.
Tensor last_rows(const Tensor& x, Offsets offsets);

// ---- for generate() and beam_search()

// Throws ArgumentError for a missing function, StateError unless in Mode::eval. `who` begins the message.
void check_steps(const StepModel& steps, const char* who);

// steps.scores(unread). Throws ShapeError unless it has a row for each text.
Tensor next_scores(const StepModel& steps, const Ragged& unread, const char* who);

}  // namespace SEPPO_ABI
}  // namespace seppo
