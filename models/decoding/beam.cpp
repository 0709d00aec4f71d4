// Beam search with cached keys and values: the targets of one source are neighbouring rows of the batch.
#include "beam.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// A target continued by one token.
struct Candidate {
  int row, token;
  double log_probability;
};

bool is_better(const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; }

// Adds the `count` likeliest continuations of a row, whose scores plus `base` are log probabilities.
void add_best(std::vector<Candidate>& candidates, int row, std::span<const real> logits, double base,
              std::size_t count) {
  check<NumericError>(std::isfinite(base), "beam_search: the model's scores are not finite");
  std::vector<Candidate> best;  // sorted
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const Candidate candidate{row, static_cast<int>(i), base + static_cast<double>(logits[i])};
    if (best.size() == count && !is_better(candidate, best.back())) continue;
    if (best.size() == count) best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, is_better), candidate);
  }
  candidates.insert(candidates.end(), best.begin(), best.end());
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Ragged& src, const BeamOptions& o) {
  check<ArgumentError>(o.beam > 0, "beam_search: beam ", o.beam, " is not positive");
  check<ArgumentError>(o.n_best > 0 && o.n_best <= o.beam, "beam_search: n_best ", o.n_best, " is not in 1..", o.beam,
                       ", the beam");
  check<ArgumentError>(std::isfinite(o.length_penalty) && o.length_penalty >= 0, "beam_search: length penalty ",
                       o.length_penalty, " is negative or not finite");
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  std::vector<std::vector<Hypothesis>> ended(src.size());
  const auto end = [&](std::size_t s, Hypothesis h) {
    h.score = h.log_probability / std::pow((5 + static_cast<double>(h.tokens.size())) / 6, o.length_penalty);
    ended[s].push_back(std::move(h));
  };

  KeyValueCache cache = model.make_cache(src.size(), o.max_length);
  const Tensor memory = model.encode(src);
  std::vector<Hypothesis> rows(src.size());  // unfinished targets, in the order of their sources
  std::vector<int> source_rows(src.size() + 1);
  std::iota(source_rows.begin(), source_rows.end(), 0);
  Ragged tokens{std::vector<int>(src.size(), o.bos), source_rows};  // the last one of each row
  for (int length = 0; length < o.max_length && !rows.empty(); ++length) {
    const TapeMark step;
    const Tensor logits = model.decode(tokens, memory, src.offsets, &cache);  // [rows, tgt_vocabulary]
    const Tensor log_sums = logsumexp(logits, 1);
    std::vector<Hypothesis> next_rows;
    std::vector<int> parents, next_source_rows{0};
    tokens.clear();
    for (std::size_t s = 0; s < src.size(); ++s) {
      const std::size_t places = static_cast<std::size_t>(o.beam) - ended[s].size();
      std::vector<Candidate> candidates;
      for (int r = source_rows[s]; r < source_rows[s + 1]; ++r) {
        const auto row = static_cast<std::size_t>(r);
        add_best(candidates, r, logits.values().subspan(row * logits.cols(), logits.cols()),
                 rows[row].log_probability - static_cast<double>(log_sums.values()[row]), places);
      }
      std::stable_sort(candidates.begin(), candidates.end(), is_better);
      candidates.resize(std::min(candidates.size(), places));
      for (const Candidate& c : candidates) {
        Hypothesis h{rows[static_cast<std::size_t>(c.row)].tokens, c.log_probability, 0};
        h.tokens.push_back(c.token);
        if (c.token == o.eos) {
          end(s, std::move(h));
        } else {
          next_rows.push_back(std::move(h));
          parents.push_back(c.row);
          tokens.add({&c.token, 1});
        }
      }
      next_source_rows.push_back(static_cast<int>(parents.size()));
    }
    cache.select(parents, next_source_rows);
    rows = std::move(next_rows);
    source_rows = std::move(next_source_rows);
  }
  for (std::size_t s = 0; s < src.size(); ++s) {
    for (int r = source_rows[s]; r < source_rows[s + 1]; ++r) end(s, std::move(rows[static_cast<std::size_t>(r)]));
    std::stable_sort(ended[s].begin(), ended[s].end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    ended[s].resize(std::min(ended[s].size(), static_cast<std::size_t>(o.n_best)));
  }
  return ended;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
