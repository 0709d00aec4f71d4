// Generation with cached keys and values: all prompts are in one batch, and texts that have ended leave it.
#include "generate.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

struct Text {
  std::size_t prompt;
  std::vector<int> tokens;  // the prompt, and what follows
  RandomStream random;
};

}  // namespace

std::vector<std::vector<int>> generate(const LanguageModel& model, const Ragged& prompts,
                                       const GenerateOptions& options, const OnToken& on_token) {
  options.sampling.validate();
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
