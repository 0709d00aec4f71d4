// Text generation with a small LLaMA: it is trained until it has memorised a rhyme, then continues prompts.
// docs/generation.md walks through it.
#include <seppo/models/decoding/generate.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

using namespace seppo;

const std::string kRhyme =
    "One for sorrow,\nTwo for mirth,\nThree for a funeral,\nFour for birth,\nFive for heaven,\nSix for hell,\n"
    "Seven for the devil, his own self.\n";
const std::string kAlphabet = "\n ,.FOSTabcdefghilmnorstuvwx";  // its characters are the tokens
constexpr std::size_t kWindow = 32;
constexpr int kSteps = 500;

std::vector<int> encode(const std::string& text) {
  std::vector<int> ids;
  for (const char c : text) ids.push_back(static_cast<int>(kAlphabet.find(c)));
  return ids;
}

char text_of(int token) { return kAlphabet[static_cast<std::size_t>(token)]; }

using Batch = std::vector<int>;  // where windows of the rhyme begin

struct Training {
  Batch draw() {
    const std::span<const int> starts = sampler.next();
    return {starts.begin(), starts.end()};
  }

  double step(const Batch& batch) {
    const auto loss = [&](std::span<const int> starts) {
      Ragged windows;
      for (const int start : starts)
        windows.add(std::span(rhyme).subspan(static_cast<std::size_t>(start), kWindow + 1));
      return classification_loss(model(windows.without_last()), windows.without_first().tokens);
    };
    return trainer.step(batch, loss).loss;
  }

  std::vector<int> rhyme = encode(kRhyme);
  Parameters parameters{/*seed=*/1};
  LanguageModel model{parameters.root(),
                      {.vocabulary = static_cast<int>(kAlphabet.size()),
                       .layer = {.d_model = 32,
                                 .n_heads = 4,
                                 .d_ff = 64,
                                 .dropout = 0,
                                 .norm = Norm::pre,
                                 .activation = Activation::swiglu,
                                 .bias = false,
                                 .n_kv_heads = 2,
                                 .norm_kind = NormKind::rms},
                       .n_layers = 2,
                       .positions = Positions::rotary,
                       .max_length = kWindow,
                       .tie_output = false}};
  Trainer trainer{parameters, {.lr = 1e-2, .schedule = ScheduleKind::cosine, .warmup_steps = 20, .steps = kSteps}};
  Sampler sampler{rhyme.size() - kWindow, {.batch_size = 8}};
};

int main() {
  Training training;
  for (int step = 0; step < kSteps; ++step) training.step(training.draw());
  const LanguageModel& model = training.model;

  Ragged prompts;  // any number of them, each of its own length
  prompts.add(encode("Two for"));
  prompts.add(encode("Three for a fun"));
  const GenerateOptions options{
      .max_tokens = 80, .sampling = {.temperature = 0.5, .top_p = 0.9}, .stop = encode("."), .stride = 8};
  const auto texts = generate(model, prompts, options);
  for (const std::vector<int>& text : texts) {
    std::string shown;
    for (const int token : text) shown += text_of(token);
    std::cout << "... " << shown << "\n";
  }

  Ragged prompt;
  prompt.add(encode("One"));
  generate(model, prompt, options, [](std::size_t, int token) { std::cout << text_of(token) << std::flush; });
  std::cout << "\n";

  // A custom loop with greedy decoding, which recites the rhyme from its first word on.
  const Inference inference;
  KeyValueCache cache = model.make_cache(prompt.size());
  Tensor scores = model(prompt, &cache);  // then one token, or any number, for each text:
  std::string own;
  while (own.size() + 3 < kWindow) {
    Ragged next;
    next.add(argmax(slice(scores, 0, scores.size(0) - 1, scores.size(0))));
    own += text_of(next.tokens[0]);
    scores = model(next, &cache);  // as model(whole) without a cache, up to rounding
  }
  std::cout << "One" << own << "\n";
  return kRhyme.starts_with("One" + own) ? 0 : 1;
}
