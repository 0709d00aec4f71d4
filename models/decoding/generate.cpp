// Generation with cached keys and values: all prompts are in one batch, and texts that have ended leave it.
#include "generate.h"

#include "../../autograd/core/guards.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// A text that has not ended.
struct Text {
  std::size_t prompt;
  std::vector<int> tokens;  // the prompt, and what follows
  RandomStream random;
  const GenerateOptions* options;
  int read = 0;  // tokens that the model remembers
};

// What is written for all prompts.
struct Batch {
  std::vector<Text> open = {};  // in the order of their prompts
  std::vector<GeneratedText> texts = {};
  bool is_scored = false;

  void add(std::span<const int> prompt, const GenerateOptions& options, std::uint64_t stream) {
    const std::size_t number = texts.size();
    check(!prompt.empty(), "generate: prompt ", number, " is empty");
    texts.emplace_back();
    if (options.max_tokens == 0) return;
    const RandomStream random(options.seed, Purpose::sampling, stream);
    open.push_back({number, {prompt.begin(), prompt.end()}, random, &options});
  }

  // False if that is the last one.
  bool continue_with(Text& text, int token) {
    const GenerateOptions& options = *text.options;
    std::vector<int>& tokens = texts[text.prompt].tokens;
    tokens.push_back(token);
    text.tokens.push_back(token);
    const bool is_stop = std::ranges::find(options.stop, token) != options.stop.end();
    return !is_stop && tokens.size() < static_cast<std::size_t>(options.max_tokens);
  }
};

void check_options(const GenerateOptions& options, int window) {
  options.sampling.validate();
  check<ArgumentError>(options.max_tokens >= 0, "generate: max_tokens ", options.max_tokens, " is negative");
  check<ArgumentError>(window == 0 || (options.stride > 0 && options.stride <= window), "generate: stride ",
                       options.stride, " is not in 1..", window, ", the model's max_length");
}

// The tokens of a text that the model lacks. A full window is forgotten, and read again without its first tokens.
std::span<const int> unread_tokens(Text& text, std::size_t place, const StepModel& steps) {
  const auto window = static_cast<std::size_t>(steps.window);
  if (window > 0 && text.read == steps.window) {
    steps.restart(place);
    text.read = 0;
  }
  std::size_t count = 1;
  if (text.read == 0) {
    const bool fits = window == 0 || text.tokens.size() <= window;
    count = fits ? text.tokens.size() : window - static_cast<std::size_t>(text.options->stride) + 1;
  }
  text.read += static_cast<int>(count);
  return std::span(text.tokens).last(count);
}

int next_token(std::span<const real> scores, Text& text, std::vector<real>& changed) {
  const GenerateOptions& options = *text.options;
  const auto own = apply_hook(options.hook, scores, text.tokens, changed, "generate");
  if (options.hook && !own.empty())
    check<ArgumentError>(std::ranges::max(own) > -std::numeric_limits<real>::infinity(),
                         "generate: the hook bans all tokens after ", text.tokens.size(), " of prompt ", text.prompt);
  return sample_token(own, options.sampling, text.random, text.tokens);
}

// Where the open texts of each prompt begin, of which it has one or none.
std::vector<int> sources_of(const Batch& batch) {
  std::vector<int> sources(batch.texts.size() + 1);
  for (const Text& text : batch.open) sources[text.prompt + 1] = 1;
  std::partial_sum(sources.begin(), sources.end(), sources.begin());
  return sources;
}

// Leaves out the prompts that ask for no tokens.
void select_open(const Batch& batch, const StepModel& steps) {
  std::vector<int> prompts;
  for (const Text& text : batch.open) prompts.push_back(static_cast<int>(text.prompt));
  if (prompts.size() < batch.texts.size()) steps.select(prompts, sources_of(batch));
}

// Each open text gets a token.
void write_tokens(Batch& batch, const StepModel& steps, const OnToken& on_token) {
  const TapeMark step;
  Ragged unread;
  for (std::size_t t = 0; t < batch.open.size(); ++t) unread.add(unread_tokens(batch.open[t], t, steps));
  const Tensor scores = next_scores(steps, unread, "generate");               // [texts, vocabulary]
  const Tensor log_sums = batch.is_scored ? logsumexp(scores, 1) : Tensor();  // [texts]
  std::vector<int> parents;                                                   // of the texts that go on
  std::vector<Text> going;
  std::vector<real> changed;
  for (std::size_t t = 0; t < batch.open.size(); ++t) {
    Text& text = batch.open[t];
    const auto own = scores.values().subspan(t * scores.cols(), scores.cols());
    const int token = next_token(own, text, changed);
    if (batch.is_scored) {
      const double score = static_cast<double>(own[static_cast<std::size_t>(token)]);
      batch.texts[text.prompt].log_probabilities.push_back(score - static_cast<double>(log_sums.values()[t]));
    }
    const bool goes_on = batch.continue_with(text, token);
    if (on_token) on_token(text.prompt, token);
    if (!goes_on) continue;
    parents.push_back(static_cast<int>(t));
    going.push_back(std::move(text));
  }
  batch.open = std::move(going);
  steps.select(parents, sources_of(batch));
}

std::vector<GeneratedText> write_all(Batch& batch, const StepModel& steps, const OnToken& on_token) {
  check_steps(steps, "generate");
  const TapeMark mark;
  select_open(batch, steps);
  while (!batch.open.empty()) write_tokens(batch, steps, on_token);
  return std::move(batch.texts);
}

// Makes a model's cache and hands both, as a StepModel, to `use`.
template <class Use>
auto with_cache(const LanguageModel& model, std::size_t prompts, const Use& use) {
  const Inference inference;
  KeyValueCache cache = model.make_cache(prompts);
  return use(step_model(model, cache));
}

}  // namespace

StepModel step_model(const LanguageModel& model, KeyValueCache& cache) {
  return {.scores =
              [&](const Ragged& unread) {
                const Tensor x = model.features(unread, &cache);  // [rows, d_model]
                return model.scores(last_rows(x, unread.offsets));
              },
          .select = [&](std::span<const int> parents, Offsets) { cache.select(parents); },
          .window = model.config.max_length,
          .restart = [&](std::size_t text) { cache.restart(text); }};
}

double GeneratedText::log_probability() const {
  return std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0);
}

std::vector<std::vector<int>> generate(const StepModel& steps, const Ragged& prompts, const GenerateOptions& options,
                                       const OnToken& on_token) {
  check_options(options, steps.window);
  Batch batch;
  for (std::size_t p = 0; p < prompts.size(); ++p) batch.add(prompts[p], options, p);
  std::vector<std::vector<int>> continuations;
  for (GeneratedText& text : write_all(batch, steps, on_token)) continuations.push_back(std::move(text.tokens));
  return continuations;
}

std::vector<std::vector<int>> generate(const LanguageModel& model, const Ragged& prompts,
                                       const GenerateOptions& options, const OnToken& on_token) {
  return with_cache(model, prompts.size(),
                    [&](const StepModel& steps) { return generate(steps, prompts, options, on_token); });
}

std::vector<GeneratedText> generate_each(const StepModel& steps, std::span<const TextRequest> requests,
                                         const OnToken& on_token) {
  Batch batch{.is_scored = true};
  for (const TextRequest& request : requests) {
    check_options(request.options, steps.window);
    batch.add(request.prompt, request.options, /*stream=*/0);
  }
  return write_all(batch, steps, on_token);
}

std::vector<GeneratedText> generate_each(const LanguageModel& model, std::span<const TextRequest> requests,
                                         const OnToken& on_token) {
  return with_cache(model, requests.size(),
                    [&](const StepModel& steps) { return generate_each(steps, requests, on_token); });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
