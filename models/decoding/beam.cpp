// Beam search with cached keys and values: the targets of one source are neighbouring sequences of the batch.
#include "beam.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// A target continued by one token.
struct Candidate {
  int target, token;
  double log_probability;
};

bool is_better(const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; }

// Adds the `count` likeliest continuations of a target, whose scores plus `base` are log probabilities.
void add_best(std::vector<Candidate>& candidates, int target, std::span<const real> scores, double base,
              std::size_t count) {
  check<NumericError>(std::isfinite(base), "beam_search: the model's scores are not finite");
  std::vector<Candidate> best;  // sorted
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const Candidate candidate{target, static_cast<int>(i), base + static_cast<double>(scores[i])};
    if (best.size() == count && !is_better(candidate, best.back())) continue;
    if (best.size() == count) best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, is_better), candidate);
  }
  candidates.insert(candidates.end(), best.begin(), best.end());
}

// The targets that have not ended, in the order of their sources.
struct OpenTargets {
  std::vector<Hypothesis> targets;
  std::vector<int> offsets{0};  // where those of each source begin
  std::vector<int> parents;     // which of the targets before each continues
  Ragged last;                  // the last token of each
};

OpenTargets first_targets(std::size_t sources, int bos) {
  OpenTargets open;
  open.targets.resize(sources);
  for (std::size_t s = 0; s < sources; ++s) {
    open.offsets.push_back(static_cast<int>(s) + 1);
    open.last.add({&bos, 1});
  }
  return open;
}

// The best continuations of a source's targets, the best first, at most as many as it has places.
std::vector<Candidate> best_continuations(const OpenTargets& open, std::size_t source, const Tensor& logits,
                                          const Tensor& log_sums, std::size_t places) {
  std::vector<Candidate> candidates;
  for (int target = open.offsets[source]; target < open.offsets[source + 1]; ++target) {
    const auto row = static_cast<std::size_t>(target);
    const double base = open.targets[row].log_probability - static_cast<double>(log_sums.values()[row]);
    add_best(candidates, target, logits.values().subspan(row * logits.cols(), logits.cols()), base, places);
  }
  std::stable_sort(candidates.begin(), candidates.end(), is_better);
  candidates.resize(std::min(candidates.size(), places));
  return candidates;
}

// The targets that have ended, for each source.
class EndedTargets {
 public:
  EndedTargets(std::size_t sources, const BeamOptions& options) : ended_(sources), options_(options) {}

  std::size_t size(std::size_t source) const { return ended_[source].size(); }

  void add(std::size_t source, Hypothesis target) {
    const double length = static_cast<double>(target.tokens.size());
    target.score = target.log_probability / std::pow((5 + length) / 6, options_.length_penalty);
    ended_[source].push_back(std::move(target));
  }

  std::vector<std::vector<Hypothesis>> best() && {
    const auto has_higher_score = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
    for (std::vector<Hypothesis>& targets : ended_) {
      std::stable_sort(targets.begin(), targets.end(), has_higher_score);
      targets.resize(std::min(targets.size(), static_cast<std::size_t>(options_.n_best)));
    }
    return std::move(ended_);
  }

 private:
  std::vector<std::vector<Hypothesis>> ended_;
  const BeamOptions& options_;
};

// Continues the open targets of all sources by a token. Those that end with it keep their places in the beam.
OpenTargets advance(const OpenTargets& open, EndedTargets& ended, const Tensor& logits, const BeamOptions& options) {
  const Tensor log_sums = logsumexp(logits, 1);
  OpenTargets next;
  for (std::size_t s = 0; s + 1 < open.offsets.size(); ++s) {
    const std::size_t places = static_cast<std::size_t>(options.beam) - ended.size(s);
    for (const Candidate& c : best_continuations(open, s, logits, log_sums, places)) {
      Hypothesis longer{open.targets[static_cast<std::size_t>(c.target)].tokens, c.log_probability, 0};
      longer.tokens.push_back(c.token);
      if (c.token == options.eos) {
        ended.add(s, std::move(longer));
        continue;
      }
      next.targets.push_back(std::move(longer));
      next.parents.push_back(c.target);
      next.last.add({&c.token, 1});
    }
    next.offsets.push_back(static_cast<int>(next.targets.size()));
  }
  return next;
}

}  // namespace

void BeamOptions::validate() const {
  check<ArgumentError>(beam > 0, "beam_search: beam ", beam, " is not positive");
  check<ArgumentError>(n_best > 0 && n_best <= beam, "beam_search: n_best ", n_best, " is not in 1..", beam,
                       ", the beam");
  check<ArgumentError>(std::isfinite(length_penalty) && length_penalty >= 0, "beam_search: length penalty ",
                       length_penalty, " is negative or not finite");
}

std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Ragged& src,
                                                 const BeamOptions& options) {
  options.validate();
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  KeyValueCache cache = model.make_cache(src.size(), options.max_length);
  const Tensor memory = model.encode(src);
  EndedTargets ended(src.size(), options);
  OpenTargets open = first_targets(src.size(), options.bos);
  for (int length = 0; length < options.max_length && !open.targets.empty(); ++length) {
    const TapeMark step;
    const Tensor logits = model.decode(open.last, memory, src.offsets, &cache);  // [targets, tgt_vocabulary]
    open = advance(open, ended, logits, options);
    cache.select(open.parents, open.offsets);
  }
  for (std::size_t s = 0; s < src.size(); ++s)  // those that have reached max_length
    for (int target = open.offsets[s]; target < open.offsets[s + 1]; ++target)
      ended.add(s, std::move(open.targets[static_cast<std::size_t>(target)]));
  return std::move(ended).best();
}

std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, BeamOptions options) {
  options.beam = 1;
  options.n_best = 1;
  std::vector<std::vector<int>> targets;
  for (auto& found : beam_search(model, src, options)) targets.push_back(std::move(found[0].tokens));
  return targets;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
