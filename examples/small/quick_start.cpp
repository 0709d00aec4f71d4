// Learns to write numbers of three digits backwards, and is asked about one that it has not seen. The README shows it.
#include <seppo/seppo.h>
#include <iostream>

using namespace seppo;

int main() {
  constexpr int kBos = 10, kEos = 11;
  Ragged src, tgt;  // sequences of tokens
  for (int i = 0; i < 1000; ++i) {
    const int n = 377 * i % 1000, a = n / 100, b = n / 10 % 10, c = n % 10;  // n is each number once
    src.add({a, b, c});
    tgt.add({kBos, c, b, a, kEos});
  }
  Parameters parameters(/*seed=*/1);
  const Transformer model(parameters.root(), {.src_vocabulary = 10,
                                              .tgt_vocabulary = 12,
                                              .layer = {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0},
                                              .enc_layers = 1,
                                              .dec_layers = 1});
  Trainer trainer(parameters, {.lr = 5e-3, .schedule = ScheduleKind::cosine, .warmup_steps = 20, .steps = 300});
  Sampler sampler(/*examples=*/900, {.batch_size = 64});
  while (trainer.steps() < 300) {
    const StepResult now = trainer.step(sampler.next(), [&](std::span<const int> rows) {  // a part of the batch
      const Ragged target = tgt.pick(rows);
      const Tensor logits = model.logits(src.pick(rows), target.without_last());
      return classification_loss(logits, target.without_first().tokens);
    });
    if (now.step % 100 == 0) std::cout << "step " << now.step << ": loss " << now.loss << "\n";
  }
  const auto answers = greedy_decode(model, src.pick({999}), {.bos = kBos, .eos = kEos, .max_length = 4});
  std::cout << "623 backwards:";
  for (const int token : answers[0]) std::cout << " " << token;
  std::cout << "\n";
  return answers[0] == std::vector<int>{3, 2, 6, kEos} ? 0 : 1;
}
