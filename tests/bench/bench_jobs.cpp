// Times whole jobs through the public API and prints one JSON line per measurement:
//
//   bench_jobs --job J1 --threads 2 --seconds 3
//
// With --losses N it instead trains without dropout, saves the initial weights to FILE (--weights FILE)
// and prints the tokens and the N losses, for torch_jobs.py --agree to repeat.
//
// J1 addsub-lab, J2 addsub-large, J3 reverse, J4 base Transformer: one training step (forward, loss,
// backward, gradient norm, clipping if the job uses it, Adam). J5: the same for a decoder-only model. J6: attention
// alone, lengths 256-2048. J7: greedy decoding with J4's model. J8: a chain of 1,000 additions of 4 x 4 tensors,
// forward and backward. J9: a step of GPT-2's shape, 124 million parameters; J10: of a language model of 6 million.
// J11 and J12: adapters of a model of 135 million parameters trained, and text written by it.
// charlm: a step of examples/charlm with its defaults. --floor adds, for all training steps but J3 and J11, the time
// they would take if they consisted only of their products and Adam's memory traffic. With --by-turns it waits for its
// turn, so that tests/bench/by_turns can compare builds in short turns. J1, J2, J4 and J5 also run on several ranks
// (tests/bench/scaling).
#include "addsub/model.h"
#include "app/run.h"
#include "job.h"
#include "llama_jobs.h"
#include "reverse/model.h"

#include <seppo/autograd/core/matmul_precision.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/compact_weights.h>

#include <vector>

namespace {

using namespace seppo;
using namespace jobs;

// Multiplications forward and backward (twice the forward ones); causal attention needs only half of its scores.
double transformer_multiplications(const TransformerConfig& c, double sequences, double src, double tgt) {
  const double d = c.layer.d_model, ffn = 2 * d * c.layer.d_ff;
  const double encoder = c.enc_layers * src * (4 * d * d + ffn + 2 * src * d);
  const double decoder = c.dec_layers * (tgt * (6 * d * d + ffn + (tgt + 1 + 2 * src) * d) + src * 2 * d * d);
  return 3 * sequences * (encoder + decoder + tgt * d * c.tgt_vocabulary);
}

double language_model_multiplications(const LanguageModelConfig& c, double sequences) {
  const double d = c.layer.d_model, length = c.max_length;
  return 3 * sequences * length * (c.n_layers * (12 * d * d + (length + 1) * d) + d * c.vocabulary);
}

void bench_transformer(const Bench& bench, Parameters& parameters, const Transformer& model, int sequences,
                       int src_length, int tgt_length, double smoothing, const TrainerConfig& trainer) {
  sequences *= bench.times;
  const Ragged src = random_batch(sequences, src_length, model.config.src_vocabulary, 1),
               tgt = random_batch(sequences, tgt_length, model.config.tgt_vocabulary, 2),
               next = random_batch(sequences, tgt_length, model.config.tgt_vocabulary, 3);
  const double multiplications = transformer_multiplications(model.config, sequences, src_length, tgt_length);
  bench_training(bench, parameters, {src, tgt, next}, trainer, multiplications, [&](std::span<const int> rows) {
    return sum_of(model.logits(src.pick(rows), tgt.pick(rows)), next.pick(rows).tokens, smoothing);
  });
}

void bench_addsub(const Bench& bench, int d_model, int n_heads, int d_ff) {
  Parameters parameters(1);
  addsub::ModelConfig config{.dropout_place = addsub::DropoutPlace::norm};
  config.transformer.layer = {.d_model = d_model, .n_heads = n_heads, .d_ff = d_ff, .dropout = bench.dropout(0.2)};
  const addsub::Model model(parameters.root(), config);
  bench_transformer(bench, parameters, model.transformer, 64, 9, 4, 0, {.lr = 1e-3, .clip_norm = 0});
}

TransformerConfig base_config(const Bench& bench) {
  return {.src_vocabulary = 8000,
          .tgt_vocabulary = 8000,
          .layer = {.dropout = bench.dropout(0.1)},
          .max_length = 64,
          .share_embeddings = true,
          .tie_output = true};
}

void bench_base(const Bench& bench) {
  Parameters parameters(1);
  const Transformer model(parameters.root(), base_config(bench));
  bench_transformer(bench, parameters, model, 16, 32, 32, 0.1,
                    {.lr = 1e-4, .adam = {.betas = {0.9, 0.98}, .eps = 1e-9}, .clip_norm = 0});
}

void bench_reverse(const Bench& bench) {
  Parameters parameters(1);
  const reversal::Model model(parameters.root(), {});
  const Ragged batch = random_batch(128, 16, 10, 1), targets = random_batch(128, 16, 10, 2);
  const TrainerConfig trainer{.lr = 5e-4,
                              .schedule = ScheduleKind::cosine,
                              .warmup_steps = 50,
                              .steps = 20000,
                              .adam = {.weight_decay = 0.01},
                              .clip_norm = 5};
  bench_training(bench, parameters, {batch, targets}, trainer, 0,
                 [&](std::span<const int> rows) { return sum_of(model(batch.pick(rows)), targets.pick(rows).tokens); });
}

// `n_heads` heads share the width `d_model`; feed-forward networks are four times as wide.
LanguageModelConfig language_model(int vocabulary, int d_model, int n_heads, int n_layers, double dropout, int length) {
  LanguageModelConfig config{.vocabulary = vocabulary, .n_layers = n_layers, .max_length = length};
  config.layer.d_model = d_model;
  config.layer.n_heads = n_heads;
  config.layer.d_ff = 4 * d_model;
  config.layer.dropout = config.layer.attention_dropout = dropout;
  return config;
}

using LossOf = ShardLoss(const LanguageModel& model, const Ragged& batch, std::span<const int> next);

ShardLoss loss_of_logits(const LanguageModel& model, const Ragged& batch, std::span<const int> next) {
  return sum_of(model(batch), next);
}

// As llm trains: the scores of a large vocabulary never stand whole.
ShardLoss loss_by_pieces(const LanguageModel& model, const Ragged& batch, std::span<const int> next) {
  return {.loss = model.loss(model.features(batch), next), .count = static_cast<double>(next.size())};
}

void bench_language_model(const Bench& bench, const LanguageModelConfig& config, int sequences,
                          LossOf* loss_of = loss_of_logits) {
  sequences *= bench.times;
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), config);
  const Ragged batch = random_batch(sequences, config.max_length, config.vocabulary, 1),
               targets = random_batch(sequences, config.max_length, config.vocabulary, 2);
  const TrainerConfig trainer{.lr = 1e-3, .adam = {.betas = {0.9, 0.99}, .weight_decay = 0.1}, .clip_norm = 1};
  bench_training(
      bench, parameters, {batch, targets}, trainer, language_model_multiplications(config, sequences),
      [&](std::span<const int> rows) { return loss_of(model, batch.pick(rows), targets.pick(rows).tokens); });
}

// With biases, as GPT-2 has them.
LanguageModelConfig gpt2(int vocabulary, int d_model, int n_heads, int n_layers, int length) {
  LanguageModelConfig config = language_model(vocabulary, d_model, n_heads, n_layers, 0, length);
  config.layer.bias = true;
  return config;
}

void bench_attention(const Bench& bench) {
  constexpr int kHeads = 4 * 8, kWidth = 64;  // heads of all sequences
  for (const int length : bench.chosen({256, 512, 1024, 2048})) {
    const Shape shape{kHeads, length, kWidth};
    Parameters inputs(1);  // created once
    const Tensor q = inputs.root().parameter("q", shape, init_normal(1)),
                 k = inputs.root().parameter("k", shape, init_normal(1)),
                 v = inputs.root().parameter("v", shape, init_normal(1));
    const std::vector<real> ones(q.numel(), 1);
    for (const bool backward : {false, true})
      bench.run(
          [&] {
            tape().clear();
            tape().mode = backward ? Mode::train : Mode::eval;
            const Tensor y = attention(q, k, v, 1);
            if (!backward) return;
            inputs.zero_gradients();
            tape().backward(y, ones);
          },
          {{"length", length}, {"mode", backward ? "fwd+bwd" : "fwd"}});
  }
}

void bench_decode(const Bench& bench) {
  Parameters parameters(1);
  const Transformer model(parameters.root(), base_config(bench));
  compact_weights(parameters, bench.format);
  for (const int sequences : bench.chosen({1, 32})) {
    const Ragged src = random_batch(sequences, 32, 8000, 1);
    bench.run([&] { greedy_decode(model, src, {.bos = 0, .eos = -1, .max_length = 32}); }, {{"batch", sequences}});
  }
}

void bench_chain(const Bench& bench) {
  const std::vector<real> values(16, 1), ones(16, 1);
  bench.run(
      [&] {
        tape().clear();
        const Tensor b = variable({4, 4}, values);
        Tensor y = b;
        for (int i = 0; i < 1000; ++i) y = y + b;
        tape().backward(y, ones);
      },
      nlohmann::json::object());
}

int run(const examples::Arguments& arguments) {
  Bench bench;
  int batch = 16, length = 64, d_model = 128, layers = 0, vocabulary = 256, prompt = 512, window = 0;
  examples::CommandLine line("bench_jobs [options]", "Times one job; see the top of tests/bench/bench_jobs.cpp.");
  line("job", bench.job, "what to time");
  line("threads", bench.threads, {1, 64}, "threads");
  line("precision", bench.precision, "of matrix products");
  line("seconds", bench.seconds, {0, 1000}, "time to spend on each measurement");
  line("batch", batch, {1, 4096}, "sequences of --job model");
  line("length", length, {1, 4096}, "their length");
  line("d_model", d_model, {32, 4096}, "width of --job model; it has a head for each 32");
  line("layers", layers, {0, 100}, "its depth, or that of J11 and J12; 0 for 2 and 30");
  line("vocabulary", vocabulary, {2, 100000}, "its vocabulary");
  line("prompt", prompt, {1, 8192}, "tokens of J12's prompt");
  line("window", window, {0, 8192}, "last tokens that each of J12 sees; 0: all");
  line("only", bench.only, {0, 8192}, "only this length of J6 or J12, or this batch of J7; 0 for all");
  line("times", bench.times, {1, 64}, "batches of J1, J2, J4, J5 so many times as large");
  line("shards", bench.shards, {0, 64}, "parts that threads and ranks share; 0 for the library's choice");
  line("losses", bench.losses, {0, 1000}, "print the losses of this many steps instead of timing them");
  line("floor", bench.wants_floor, "for training steps but J3: measure what products and Adam's traffic take alone");
  line("by_turns", bench.by_turns, "for tests/bench/by_turns: run for the milliseconds of each line of input");
  line("format", bench.format, "of the weights of J7 and J12 in memory");
  line("weights", bench.weights, "where to save the initial weights, with --losses");
  if (!line.parse(arguments)) return 0;
  set_num_threads(bench.threads);
  set_matmul_precision(bench.precision);
  if (bench.job == Job::J1) bench_addsub(bench, 32, 4, 32);
  if (bench.job == Job::J2) bench_addsub(bench, 256, 8, 512);
  if (bench.job == Job::J3) bench_reverse(bench);
  if (bench.job == Job::J4) bench_base(bench);
  if (bench.job == Job::J5) bench_language_model(bench, language_model(65, 384, 6, 6, bench.dropout(0.2), 256), 8);
  if (bench.job == Job::J6) bench_attention(bench);
  if (bench.job == Job::J7) bench_decode(bench);
  if (bench.job == Job::J8) bench_chain(bench);
  if (bench.job == Job::J9) bench_language_model(bench, gpt2(50257, 768, 12, 12, 64), 4, loss_by_pieces);
  if (bench.job == Job::J10) bench_language_model(bench, gpt2(4096, 256, 8, 6, 128), 8, loss_by_pieces);
  if (bench.job == Job::J11) bench_finetuning(bench, layers > 0 ? layers : 30);
  if (bench.job == Job::J12) bench_writing(bench, layers > 0 ? layers : 30, prompt, window);
  if (bench.job == Job::charlm) bench_language_model(bench, language_model(65, 128, 4, 4, 0, 64), 12);
  if (bench.job == Job::model)
    bench_language_model(bench, language_model(vocabulary, d_model, d_model / 32, layers > 0 ? layers : 2, 0.1, length),
                         batch);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::guarded(argv[0], [&] { return run({argv + 1, argv + argc}); });
}
