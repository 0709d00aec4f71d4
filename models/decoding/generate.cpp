// Generation with cached keys and values: all prompts are in one batch, and texts that have ended leave it.
#include "generate.h"

#include <algorithm>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

struct Text {
  std::size_t prompt;
  std::vector<int> tokens;  // the prompt, and what follows
  RandomStream random;
};

std::vector<Text> texts_of(const Ragged& prompts, std::uint64_t seed) {
  std::vector<Text> texts;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const auto prompt = prompts[p];
    check(!prompt.empty(), "generate: prompt ", p, " is empty");
    texts.push_back({p, {prompt.begin(), prompt.end()}, RandomStream(seed, Purpose::sampling, p)});
  }
  return texts;
}

// The tokens of each text that the cache lacks. A full window is forgotten, and read again without its first tokens.
Ragged unread_tokens(std::span<const Text> texts, KeyValueCache& cache, int max_length, int stride) {
  const auto window = static_cast<std::size_t>(max_length);
  const std::size_t advanced_window = window - static_cast<std::size_t>(stride) + 1;
  Ragged unread;
  for (std::size_t t = 0; t < texts.size(); ++t) {
    const std::vector<int>& tokens = texts[t].tokens;
    if (cache.length(t) == max_length) cache.restart(t);
    std::size_t count = 1;
    if (cache.length(t) == 0) count = tokens.size() <= window ? tokens.size() : advanced_window;
    unread.add(std::span(tokens).last(count));
  }
  return unread;
}

// The scores of the token after each text: [texts, vocabulary].
Tensor next_scores(const LanguageModel& model, const Ragged& unread, KeyValueCache& cache) {
  const Tensor x = model.features(unread, &cache);  // [rows, d_model]
  if (x.rows() == unread.size()) return model.scores(x);
  std::vector<int> last;  // row of each text
  for (const int end : std::span(unread.offsets).subspan(1)) last.push_back(end - 1);
  return model.scores(index_select(x, 0, last));
}

}  // namespace

std::vector<std::vector<int>> generate(const LanguageModel& model, const Ragged& prompts,
                                       const GenerateOptions& options, const OnToken& on_token) {
  const int max_length = model.config.max_length;
  options.sampling.validate();
  check<ArgumentError>(options.max_tokens >= 0, "generate: max_tokens ", options.max_tokens, " is negative");
  check<ArgumentError>(options.stride > 0 && options.stride <= max_length, "generate: stride ", options.stride,
                       " is not in 1..", max_length, ", the model's max_length");
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  std::vector<std::vector<int>> continuations(prompts.size());
  std::vector<Text> open = texts_of(prompts, options.seed);
  KeyValueCache cache = model.make_cache(prompts.size());
  for (int i = 0; i < options.max_tokens && !open.empty(); ++i) {
    const TapeMark step;
    const Ragged unread = unread_tokens(open, cache, max_length, options.stride);
    const Tensor scores = next_scores(model, unread, cache);  // [texts, vocabulary]
    std::vector<int> parents;                                 // the texts that go on
    std::vector<Text> going;
    for (std::size_t t = 0; t < open.size(); ++t) {
      Text& text = open[t];
      const auto own = scores.values().subspan(t * scores.cols(), scores.cols());
      const int token = sample_token(own, options.sampling, text.random, text.tokens);
      continuations[text.prompt].push_back(token);
      if (on_token) on_token(text.prompt, token);
      if (std::ranges::find(options.stop, token) != options.stop.end()) continue;
      text.tokens.push_back(token);
      parents.push_back(static_cast<int>(t));
      going.push_back(std::move(text));
    }
    cache.select(parents);
    open = std::move(going);
  }
  return continuations;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
