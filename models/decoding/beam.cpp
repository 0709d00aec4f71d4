// Beam search with cached keys and values: the targets of one source are neighbouring sequences of the batch.
#include "beam.h"

#include "../../autograd/core/guards.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// A target continued by one token.
struct Candidate {
  int target, token;
  double score;  // its log probability, and what the hook has added
};

bool is_better(const Candidate& a, const Candidate& b) { return a.score > b.score; }

// Adds the `count` best continuations of a target, whose scores plus `base` are log probabilities.
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
  while (!best.empty() && best.back().score == -std::numeric_limits<double>::infinity()) best.pop_back();
  candidates.insert(candidates.end(), best.begin(), best.end());
}

// The targets that have not ended, in the order of their sources. Their scores are without the length penalty.
struct OpenTargets {
  std::vector<Hypothesis> targets;
  std::vector<int> offsets{0};  // where those of each source begin
  std::vector<int> parents;     // which of the targets before each continues
  Ragged unread;                // what the model has not read of each

  std::span<const Hypothesis> of(std::size_t source) const {
    const auto begin = static_cast<std::size_t>(offsets[source]), end = static_cast<std::size_t>(offsets[source + 1]);
    return std::span(targets).subspan(begin, end - begin);
  }
};

OpenTargets first_targets(const Ragged& starts) {
  OpenTargets open;
  open.targets.resize(starts.size());
  for (std::size_t s = 0; s < starts.size(); ++s) open.offsets.push_back(static_cast<int>(s) + 1);
  open.unread = starts;
  return open;
}

// The model's scores of the token after each target: logits [targets, vocabulary], and the logarithms of the sums of
// their exponentials.
struct Scores {
  Tensor logits, log_sums;

  std::span<const real> of(int target) const {
    return logits.values().subspan(static_cast<std::size_t>(target) * logits.cols(), logits.cols());
  }
  double log_sum(int target) const { return static_cast<double>(log_sums.values()[static_cast<std::size_t>(target)]); }
};

// The targets that have ended, for each source.
class EndedTargets {
 public:
  EndedTargets(std::size_t sources, const BeamOptions& options) : ended_(sources), options_(options) {}

  std::span<const Hypothesis> of(std::size_t source) const { return ended_[source]; }

  void add(std::size_t source, Hypothesis target) {
    const double length = static_cast<double>(target.tokens.size());
    target.score /= std::pow((5 + length) / 6, options_.length_penalty);
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

Hypothesis longer_by(const Hypothesis& target, const Candidate& c, const Scores& scores) {
  const double log_sum = scores.log_sum(c.target);
  const double logit = static_cast<double>(scores.of(c.target)[static_cast<std::size_t>(c.token)]);
  Hypothesis longer = target;
  longer.tokens.push_back(c.token);
  longer.log_probability = target.log_probability - log_sum + logit;
  longer.score = c.score;
  longer.token_log_probabilities.push_back(logit - log_sum);
  return longer;
}

class BeamSearch {
 public:
  BeamSearch(const Ragged& starts, const BeamOptions& options)
      : starts_(starts), options_(options), ended_(starts.size(), options), open_(first_targets(starts)) {}

  const OpenTargets& open() const { return open_; }

  // Continues the open targets of all sources by a token. Those that end with it keep their places in the beam.
  void advance(const Scores& scores) {
    OpenTargets next;
    for (std::size_t s = 0; s < starts_.size(); ++s) {
      for (const Candidate& c : best_continuations(s, scores)) {
        Hypothesis longer = longer_by(open_.targets[static_cast<std::size_t>(c.target)], c, scores);
        if (c.token == options_.eos) {
          ended_.add(s, std::move(longer));
          continue;
        }
        next.targets.push_back(std::move(longer));
        next.parents.push_back(c.target);
        next.unread.add({&c.token, 1});
      }
      next.offsets.push_back(static_cast<int>(next.targets.size()));
    }
    open_ = std::move(next);
  }

  // The first tokens of a source's targets, as far as all have the same.
  std::span<const int> agreed(std::size_t source) const {
    const auto open = open_.of(source), ended = ended_.of(source);
    if (open.empty() && ended.empty()) return {};
    std::span<const int> common = (open.empty() ? ended : open)[0].tokens;
    for (const auto& targets : {open, ended})
      for (const Hypothesis& target : targets) {
        const auto end = std::ranges::mismatch(common, target.tokens).in1;
        common = common.first(static_cast<std::size_t>(end - common.begin()));
      }
    return common;
  }

  std::vector<std::vector<Hypothesis>> best() && {
    for (std::size_t s = 0; s < starts_.size(); ++s)  // those that have reached max_length
      for (const Hypothesis& target : open_.of(s)) ended_.add(s, target);
    return std::move(ended_).best();
  }

 private:
  // The best continuations of a source's targets, the best first, at most as many as it has places.
  std::vector<Candidate> best_continuations(std::size_t source, const Scores& scores) {
    const std::size_t places = static_cast<std::size_t>(options_.beam) - ended_.of(source).size();
    std::vector<Candidate> candidates;
    for (int target = open_.offsets[source]; target < open_.offsets[source + 1]; ++target) {
      const Hypothesis& h = open_.targets[static_cast<std::size_t>(target)];
      add_best(candidates, target, hooked(source, h, scores.of(target)), h.score - scores.log_sum(target), places);
    }
    std::stable_sort(candidates.begin(), candidates.end(), is_better);
    candidates.resize(std::min(candidates.size(), places));
    return candidates;
  }

  std::span<const real> hooked(std::size_t source, const Hypothesis& target, std::span<const real> scores) {
    if (!options_.hook) return scores;
    text_.assign(starts_[source].begin(), starts_[source].end());
    text_.insert(text_.end(), target.tokens.begin(), target.tokens.end());
    return apply_hook(options_.hook, scores, text_, changed_, "beam_search");
  }

  const Ragged& starts_;
  const BeamOptions& options_;
  EndedTargets ended_;
  OpenTargets open_;
  std::vector<int> text_;      // of the target whose scores the hook changes,
  std::vector<real> changed_;  // into these
};

// Tells the tokens of each source once.
class Listener {
 public:
  Listener(const OnToken& on_token, std::size_t sources) : on_token_(on_token), told_(sources) {}

  void tell(std::size_t source, std::span<const int> tokens) {
    for (std::size_t& told = told_[source]; told < tokens.size(); ++told) on_token_(source, tokens[told]);
  }

 private:
  const OnToken& on_token_;
  std::vector<std::size_t> told_;  // of each source: how many of its tokens
};

void check_search(const StepModel& steps, const Ragged& starts, const BeamOptions& options) {
  options.validate();
  check_steps(steps, "beam_search");
  check<ArgumentError>(options.max_length > 0, "beam_search: max_length ", options.max_length, " is not positive");
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const std::size_t length = starts[s].size() + static_cast<std::size_t>(options.max_length) - 1;  // to be read
    check(!starts[s].empty(), "beam_search: start ", s, " is empty");
    check<ArgumentError>(steps.window == 0 || length <= static_cast<std::size_t>(steps.window), "beam_search: start ",
                         s, " of ", starts[s].size(), " tokens, and max_length ", options.max_length,
                         ", are too long for the model's window ", steps.window);
  }
}

}  // namespace

void BeamOptions::validate() const {
  check<ArgumentError>(beam > 0, "beam_search: beam ", beam, " is not positive");
  check<ArgumentError>(n_best > 0 && n_best <= beam, "beam_search: n_best ", n_best, " is not in 1..", beam,
                       ", the beam");
  check<ArgumentError>(std::isfinite(length_penalty) && length_penalty >= 0, "beam_search: length penalty ",
                       length_penalty, " is negative or not finite");
}

std::vector<std::vector<Hypothesis>> beam_search(const StepModel& steps, const Ragged& starts,
                                                 const BeamOptions& options, const OnToken& on_token) {
  check_search(steps, starts, options);
  BeamSearch search(starts, options);
  Listener listener(on_token, starts.size());
  for (int length = 0; length < options.max_length && !search.open().targets.empty(); ++length) {
    const TapeMark step;
    const Tensor logits = next_scores(steps, search.open().unread, "beam_search");  // [targets, vocabulary]
    search.advance({logits, logsumexp(logits, 1)});
    steps.select(search.open().parents, search.open().offsets);
    for (std::size_t s = 0; on_token && s < starts.size(); ++s) listener.tell(s, search.agreed(s));
  }
  std::vector<std::vector<Hypothesis>> found = std::move(search).best();
  for (std::size_t s = 0; on_token && s < starts.size(); ++s)
    if (!found[s].empty()) listener.tell(s, found[s][0].tokens);
  return found;
}

std::vector<std::vector<Hypothesis>> beam_search(const Transformer& model, const Ragged& src,
                                                 const BeamOptions& options, const OnToken& on_token) {
  options.validate();
  const Inference inference;
  KeyValueCache cache = model.make_cache(src.size(), options.max_length);
  const Tensor memory = model.encode(src, options.src_positions);
  Ragged starts;
  for (std::size_t s = 0; s < src.size(); ++s) starts.add({options.bos});
  return beam_search(step_model(model, memory, src.offsets, cache), starts, options, on_token);
}

StepModel step_model(const Transformer& model, const Tensor& memory, Offsets memory_offsets, KeyValueCache& cache) {
  return {.scores =
              [&model, memory, memory_offsets, &cache](const Ragged& unread) {
                return last_rows(model.decode(unread, memory, memory_offsets, &cache), unread.offsets);
              },
          .select = [&](std::span<const int> parents, Offsets sources) { cache.select(parents, sources); }};
}

std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, BeamOptions options,
                                            const OnToken& on_token) {
  options.beam = 1;
  options.n_best = 1;
  std::vector<std::vector<int>> targets;
  for (auto& found : beam_search(model, src, options, on_token)) {
    check<ArgumentError>(!found.empty(), "greedy_decode: the hook bans all continuations of source ", targets.size());
    targets.push_back(std::move(found[0].tokens));
  }
  return targets;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
