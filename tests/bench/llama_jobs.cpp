// The values of the weights do not matter, so they are drawn.
#include "llama_jobs.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/models/decoding/step_model.h>
#include <seppo/models/lora.h>
#include <seppo/nn/compact_weights.h>

#include <optional>

namespace jobs {

namespace {

constexpr int kVocabulary = 49152;

LanguageModelConfig smollm2(int layers) {
  return {.vocabulary = kVocabulary,
          .layer = {.d_model = 576,
                    .n_heads = 9,
                    .d_ff = 1536,
                    .dropout = 0,
                    .norm = Norm::pre,
                    .activation = Activation::swiglu,
                    .bias = false,
                    .n_kv_heads = 3,
                    .norm_kind = NormKind::rms},
          .n_layers = layers,
          .positions = Positions::rotary_halves,
          .max_length = 2048,
          .rope_theta = 100000};
}

// A text that the model writes, always the most probable token.
class Writer {
 public:
  static constexpr int kWritten = 128;

  Writer(const LanguageModel& model, int prompt) : model_(model), prompt_(random_batch(1, prompt, kVocabulary, 1)) {}

  void read_prompt() {
    cache_.emplace(model_.make_cache(1));
    written_ = 0;
    read(prompt_);
  }
  // The next token, of the prompt's continuation or, once that is long enough, of the same from its beginning.
  void write() {
    if (written_ == kWritten) read_prompt();
    Ragged next;
    next.add({token_});
    read(next);
    ++written_;
  }

 private:
  void read(const Ragged& tokens) {
    const Inference inference;
    const Tensor last = last_rows(model_.features(tokens, &*cache_), tokens.offsets);
    token_ = argmax(model_.scores(last))[0];
  }

  const LanguageModel& model_;
  Ragged prompt_;
  std::optional<KeyValueCache> cache_;
  int token_ = 0;
  int written_ = kWritten;
};

}  // namespace

void bench_finetuning(const Bench& bench, int layers) {
  constexpr int kLength = 256;
  const int sequences = 4 * bench.times;
  Parameters parameters(1);
  LanguageModel model(parameters.root(), smollm2(layers));
  const Adapters adapters(parameters, model, {.lora = 8});
  const LanguageModel adapted = adapters.apply();
  const Ragged batch = random_batch(sequences, kLength, kVocabulary, 1);
  const Ragged targets = random_batch(sequences, kLength, kVocabulary, 2);
  bench_training(bench, parameters, {batch, targets}, {.lr = 3e-3}, 0, [&](std::span<const int> rows) {
    const std::vector<int> next = targets.pick(rows).tokens;
    return ShardLoss{.loss = adapted.loss(adapted.features(batch.pick(rows)), next),
                     .count = static_cast<double>(next.size())};
  });
}

void bench_writing(const Bench& bench, int layers, int prompt, int window) {
  Parameters parameters(1);
  LanguageModelConfig config = smollm2(layers);
  config.decoder.attentions.assign(static_cast<std::size_t>(layers), {.window = window});
  config.max_length = prompt + Writer::kWritten;
  const LanguageModel model(parameters.root(), config);
  compact_weights(parameters, bench.format);
  Writer writer(model, prompt);
  for (const int tokens : bench.chosen({prompt, 1})) {
    const bool reads = tokens > 1;
    bench.run([&] { reads ? writer.read_prompt() : writer.write(); }, {{"length", tokens}}, {}, tokens);
  }
}

}  // namespace jobs
