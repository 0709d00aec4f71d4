// Decoding with cached keys and values. Beam search: the targets of one source are neighbouring rows of the batch.
// Generation: all prompts are in one batch, and texts that have ended leave it.
#include "decoding.h"

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

std::size_t index(int token) { return static_cast<std::size_t>(token); }

std::vector<real> penalised(std::span<const real> scores, double penalty, std::span<const int> text) {
  std::vector<real> changed(scores.begin(), scores.end());
  for (const int token : text) {  // from the original score: a token that occurs twice counts once
    check<IndexError>(token >= 0 && index(token) < scores.size(), "sampling: token ", token, " has no score");
    const double x = static_cast<double>(scores[index(token)]);
    changed[index(token)] = static_cast<real>(x > 0 ? x / penalty : x * penalty);
  }
  return changed;
}

void check_sampling(const SamplingOptions& o) {
  check<ArgumentError>(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "sampling: repetition_penalty ",
                       o.repetition_penalty, " is not positive or not finite");
  check<ArgumentError>(o.temperature >= 0 && std::isfinite(o.temperature), "sampling: temperature ", o.temperature,
                       " is negative or not finite");
  check<ArgumentError>(o.top_k >= 0, "sampling: top_k ", o.top_k, " is negative");
  check<ArgumentError>(o.top_p > 0 && o.top_p <= 1, "sampling: top_p ", o.top_p, " is not in (0, 1]");
  check<ArgumentError>(o.min_p >= 0 && o.min_p <= 1, "sampling: min_p ", o.min_p, " is not in [0, 1]");
}

struct Text {
  std::size_t prompt;
  std::vector<int> tokens;  // the prompt, and what follows
  RandomStream random;
};

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

// A softmax truncated by rank, by cumulative probability and by the share of the best.
int sample_token(std::span<const real> scores, const SamplingOptions& o, RandomStream& random,
                 std::span<const int> text) {
  check_sampling(o);
  check(!scores.empty(), "sampling: there are no scores");
  std::vector<real> changed;
  if (o.repetition_penalty != 1) scores = changed = penalised(scores, o.repetition_penalty, text);
  const auto top = std::max_element(scores.begin(), scores.end());
  check<NumericError>(std::isfinite(*top) && std::none_of(scores.begin(), scores.end(), [](real x) { return x != x; }),
                      "sampling: the model's scores are not finite");
  if (o.temperature == 0) return static_cast<int>(top - scores.begin());

  std::vector<double> weights;  // probabilities up to a common factor, the best one's 1
  std::vector<int> open;        // the tokens that may be drawn
  for (const real score : scores) {
    weights.push_back(std::exp(static_cast<double>(score - *top) / o.temperature));
    if (weights.back() > 0) open.push_back(static_cast<int>(weights.size()) - 1);
  }
  const auto weight = [&](int token) { return weights[index(token)]; };
  const auto is_before = [&](int a, int b) { return weight(a) != weight(b) ? weight(a) > weight(b) : a < b; };
  const auto total = [&] {
    return std::accumulate(open.begin(), open.end(), 0.0, [&](double sum, int token) { return sum + weight(token); });
  };
  if (o.top_k > 0 && index(o.top_k) < open.size()) {
    std::partial_sort(open.begin(), open.begin() + o.top_k, open.end(), is_before);
    open.resize(index(o.top_k));
  }
  if (o.top_p < 1) {
    const double all = total(), enough = o.top_p * all, least = (all - enough) / static_cast<double>(open.size());
    std::erase_if(open, [&](int token) { return weight(token) < least; });  // the others reach top_p on their own
    std::sort(open.begin(), open.end(), is_before);
    double kept = 0;
    std::size_t count = 0;
    while (count < open.size() && kept < enough) kept += weight(open[count++]);
    open.resize(count);
  }
  std::erase_if(open, [&](int token) { return weight(token) < o.min_p; });
  double left = random.uniform() * total();
  for (const int token : open)
    if ((left -= weight(token)) < 0) return token;
  return open.back();
}

std::vector<std::vector<int>> generate(const LanguageModel& model, const Ragged& prompts,
                                       const GenerateOptions& options, const OnToken& on_token) {
  check_sampling(options.sampling);
  check<ArgumentError>(options.max_tokens >= 0, "generate: max_tokens ", options.max_tokens, " is negative");
  check<ArgumentError>(options.stride > 0 && options.stride <= model.config.max_length, "generate: stride ",
                       options.stride, " is not in 1..", model.config.max_length, ", the model's max_length");
  const auto window = static_cast<std::size_t>(model.config.max_length),
             stride = static_cast<std::size_t>(options.stride);
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  std::vector<std::vector<int>> continuations(prompts.size());
  std::vector<Text> open;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const auto prompt = prompts[p];
    check(!prompt.empty(), "generate: prompt ", p, " is empty");
    open.push_back({p, {prompt.begin(), prompt.end()}, RandomStream(options.seed, Purpose::sampling, p)});
  }
  KeyValueCache cache = model.make_cache(prompts.size());
  for (int i = 0; i < options.max_tokens && !open.empty(); ++i) {
    const TapeMark step;
    Ragged next;  // the tokens of each text that the cache lacks
    for (std::size_t r = 0; r < open.size(); ++r) {
      const std::vector<int>& tokens = open[r].tokens;
      if (cache.length(r) == model.config.max_length) cache.restart(r);
      const std::size_t count = cache.length(r) > 0 ? 1 : tokens.size() <= window ? tokens.size() : window - stride + 1;
      next.add(std::span(tokens).last(count));
    }
    const Tensor x = model.features(next, &cache);  // [rows, d_model]
    std::vector<int> last;                          // row of each text
    for (const int end : std::span(next.offsets).subspan(1)) last.push_back(end - 1);
    const Tensor logits = model.scores(x.rows() == last.size() ? x : index_select(x, 0, last));  // [texts, vocabulary]
    std::vector<int> parents;                                                                    // rows that continue
    std::vector<Text> going;
    for (std::size_t r = 0; r < open.size(); ++r) {
      const auto scores = logits.values().subspan(r * logits.cols(), logits.cols());
      const int token = sample_token(scores, options.sampling, open[r].random, open[r].tokens);
      continuations[open[r].prompt].push_back(token);
      if (on_token) on_token(open[r].prompt, token);
      if (std::find(options.stop.begin(), options.stop.end(), token) != options.stop.end()) continue;
      open[r].tokens.push_back(token);
      parents.push_back(static_cast<int>(r));
      going.push_back(std::move(open[r]));
    }
    cache.select(parents);
    open = std::move(going);
  }
  return continuations;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
