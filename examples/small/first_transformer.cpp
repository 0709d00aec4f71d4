// A first Transformer, trained on two threads to sort digits, saved, loaded and queried: docs/first-transformer.md
#include <seppo/autograd/core/parallel.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <iostream>

using namespace seppo;

struct Sorter {
  using Config = LayerConfig;
  Sorter(const Scope& s, const Config& c)
      : config(c),
        embedding(s / "embedding", /*vocabulary=*/11, c.d_model),
        positions(s / "positions", Positions::sinusoid, /*max_positions=*/13, c.d_model),
        layers(s / "layers", /*n_layers=*/2, c) {}
  Tensor operator()(const Ragged& text) const {  // the scores of each next token, [tokens, 11]
    const Tensor x = positions(embedding(text.tokens), text.offsets);
    return embedding.as_linear(layers(x, text.offsets, {.mask = Mask::causal()}));
  }
  Config config;
  Embedding embedding;
  PositionalEncoding positions;
  Encoder layers;
};

std::vector<int> text_of(int row) {  // 315240 becomes 0 4 2 5 1 3, the token 10 and 0 1 2 3 4 5
  std::vector<int> text(13, 10);
  for (std::size_t i = 0; i < 6; ++i, row /= 10) text[i] = text[7 + i] = row % 10;
  std::sort(text.begin() + 7, text.end());
  return text;
}

int main() {
  set_num_threads(2);
  Parameters parameters(/*seed=*/1);
  const Sorter model(parameters.root(), {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0, .norm = Norm::pre});
  Trainer trainer(parameters, {.lr = 3e-3, .schedule = ScheduleKind::cosine, .warmup_steps = 50, .steps = 1500});
  Sampler sampler(/*examples=*/1'000'000, {.batch_size = 64});
  while (trainer.steps() < 1500)
    trainer.step(sampler.next(), [&](std::span<const int> rows) {
      Ragged texts;
      for (const int row : rows) texts.add(text_of(row));
      return classification_loss(model(texts.without_last()), texts.without_first().tokens);
    });
  save_model("sorter.safetensors", parameters, model);
  const SavedModel<Sorter> saved = load_model<Sorter>("sorter.safetensors");
  const Inference inference;
  for (const int row : sampler.next()) {  // each example comes once in an epoch: these are new
    const std::vector<int> text = text_of(row);
    Ragged one{{text.begin(), text.begin() + 7}, {0, 7}};
    for (; one.tokens.size() < 13; ++one.offsets.back()) one.tokens.push_back(argmax(saved.model(one)).back());
    if (one.tokens != text) return 1;
  }
  std::cout << "64 new texts sorted\n";
}
