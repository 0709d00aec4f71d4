// Times whole jobs through the public API and prints one JSON line for each measurement:
//
//   bench_jobs --job J1 --threads 2 --seconds 3
//
// With --losses N it trains without dropout instead, saves the initial weights as FILE (--weights FILE)
// and prints the tokens and the N losses, for torch_jobs.py --agree to repeat.
//
// J1 addsub-lab, J2 addsub-large, J3 reverse, J4 base Transformer: one training step (forward, loss,
// backward, clipping where the job has it, Adam). J5: the same of a decoder-only model. J6: attention alone, lengths
// 256-2048. J7: greedy decoding with J4's model. J8: a chain of 1,000 additions of 4 x 4 tensors, forward and backward.
// charlm: a step of examples/charlm as it is by default.
// With --floor, for steps but J3: what they would take if they were only their products and Adam's traffic.
// With --by-turns it waits for its turns: tests/bench/by_turns compares builds in short ones.
#include "app/command_line.h"
#include "app/training.h"

#include <seppo/autograd/blas/gemm.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/models/decoding/greedy.h>
#include <seppo/models/language_model.h>
#include <seppo/models/predictor.h>
#include <seppo/nn/io/checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>

namespace {

using namespace seppo;
using Clock = std::chrono::steady_clock;

const Clock::time_point kStart = Clock::now();

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The least time of a training step on this machine: its products at the speed of a large one on every thread, and
// Adam's traffic, which reads four and writes three numbers for each parameter, at the speed of a copy.
struct Floor {
  double multiplications = 0;  // and as many additions; 0: not known
  std::size_t parameters = 0;

  // A large product on every thread, scaled to the step's; to be measured beside each step, as machines change speed.
  double products_ms(int threads) const {
    constexpr std::size_t kSize = 768;
    const double ms = fastest_ms(threads, 3, 3 * kSize * kSize, [&](real* memory) {
      gemm(Trans::no, Trans::no, kSize, kSize, kSize, memory, kSize, memory + kSize * kSize, kSize, 0,
           memory + 2 * kSize * kSize, kSize);
    });
    return ms * multiplications / (static_cast<double>(threads) * kSize * kSize * kSize);
  }

  double adam_ms(int threads) const {
    constexpr std::size_t kNumbers = std::size_t{1} << 23;
    const double ms =
        fastest_ms(threads, 10, 2 * kNumbers, [&](real* memory) { std::copy_n(memory, kNumbers, memory + kNumbers); });
    return ms * 3.5 * static_cast<double>(parameters) / (static_cast<double>(threads) * kNumbers);
  }

 private:
  // Of f on every thread at once, each with memory of its own.
  template <class F>
  static double fastest_ms(int threads, int times, std::size_t elements, const F& f) {
    const auto tasks = static_cast<std::size_t>(threads);
    std::vector<std::vector<real>> memory(tasks, std::vector<real>(elements, 1));
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < times; ++i) {
      const auto start = Clock::now();
      run_tasks(tasks, [&](std::size_t task) { f(memory[task].data()); });
      best = std::min(best, ms_since(start));
    }
    return best;
  }
};

struct Bench {
  std::string job = "J1";
  int threads = 1;
  double seconds = 3;
  int losses = 0, only = 0;
  bool wants_floor = false, by_turns = false;
  std::filesystem::path weights;

  double dropout(double p) const { return losses > 0 ? 0 : p; }

  std::vector<int> chosen(std::vector<int> sizes) const {
    if (only == 0) return sizes;
    if (std::find(sizes.begin(), sizes.end(), only) == sizes.end())
      throw examples::UsageError(fmt::format("--only: {} has {}", job, fmt::join(sizes, ", ")));
    return {only};
  }

  // Prints what it measures, then for each line of standard input, a number of milliseconds, runs steps for so long and
  // prints their mean time; an empty line ends it.
  template <class F>
  static void take_turns(const F& step, const nlohmann::json& what) {
    std::cout << what.dump() << std::endl;
    for (std::string line; std::getline(std::cin, line) && !line.empty();) {
      step();  // its caches are cold
      const double turn = std::stod(line);
      const auto start = Clock::now();
      int steps = 0;
      do step(), ++steps;
      while (ms_since(start) < turn);
      std::cout << ms_since(start) / steps << std::endl;
    }
  }

  // Runs step() until the time is up and prints the distribution of its time, and what share of it the floor is.
  template <class F>
  void run(const F& step, nlohmann::json extra, const Floor& floor = {}) const {
    step();
    if (by_turns) return take_turns(step, extra);
    const double first = ms_since(kStart);
    const bool is_brief = seconds == 0;  // a test
    for (int i = 0; i < 4 && !is_brief; ++i) step();
    const bool has_floor = wants_floor && floor.multiplications > 0;
    std::vector<double> times, products, shares;  // the latter two of the floor
    const auto begin = Clock::now();
    while (times.size() < (is_brief ? 1 : 5) || (ms_since(begin) < 1e3 * seconds && times.size() < 5000)) {
      const auto start = Clock::now();
      step();
      times.push_back(ms_since(start));
      if (!has_floor) continue;
      products.push_back(floor.products_ms(threads));
      shares.push_back(products.back() / times.back());
    }
    std::sort(times.begin(), times.end());
    const std::size_t n = times.size();
    nlohmann::json line = {{"job", job},
                           {"impl", "seppo"},
                           {"threads", threads},
                           {"median_ms", times[n / 2]},
                           {"min_ms", times[0]},
                           {"p90_ms", times[n * 9 / 10]},
                           {"steps", n},
                           {"first_step_ms", first},
                           {"peak_rss_mb", examples::peak_rss_mb()}};
    line.update(extra);
    if (has_floor) {
      std::sort(products.begin(), products.end());
      std::sort(shares.begin(), shares.end());  // of the same moment, as machines change speed
      const double adam = floor.adam_ms(threads);
      line["floor_ms"] = products[n / 2] + adam;
      line["floor_share"] = shares[n / 2] + adam / times[n / 2];
    }
    std::cout << line.dump() << std::endl;
  }
};

std::vector<int> random_tokens(std::size_t n, int vocabulary, std::uint64_t seed) {
  RandomStream random(seed, Purpose::data);
  std::vector<int> tokens;
  for (std::size_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<int>(random.below(static_cast<std::uint32_t>(vocabulary))));
  return tokens;
}

Ragged random_batch(int sequences, int length, int vocabulary, std::uint64_t seed) {
  Ragged batch;
  for (int s = 0; s < sequences; ++s)
    batch.add(random_tokens(static_cast<std::size_t>(length), vocabulary, 1000 * seed + static_cast<std::uint64_t>(s)));
  return batch;
}

Ragged part(const Ragged& batch, std::size_t first, std::size_t last) {
  Ragged some;
  for (std::size_t s = first; s < last; ++s) some.add(batch[s]);
  return some;
}

struct Optimiser {
  AdamOptions adam;
  Schedule lr;
  double clip_norm;
};

// A training step of any model whose loss is that of part of a batch; `tokens` are those of the batch.
template <class F>
void bench_training(const Bench& bench, Parameters& parameters, const std::vector<Ragged>& tokens, const Optimiser& o,
                    double multiplications, const F& shard_loss) {
  const std::size_t samples = tokens[0].size();
  Adam adam(parameters, o.adam);
  DataParallel data_parallel(parameters);
  std::uint32_t step = 0;
  double loss = 0;
  const auto train = [&] {
    const StepLoss sums = data_parallel.backward(samples, 1, ++step, shard_loss);
    const double norm = o.clip_norm > 0 ? gradient_norm(parameters) / sums.count : 0;
    adam.step(o.lr(step), clip_factor(norm, o.clip_norm) / sums.count);
    loss = sums.loss / sums.count;
  };
  if (bench.losses > 0) {
    nlohmann::json line = {{"job", bench.job}, {"tokens", nlohmann::json::array()}};
    for (const Ragged& batch : tokens) line["tokens"].push_back(batch.tokens);
    if (!bench.weights.empty()) save_checkpoint(bench.weights, parameters, {});
    for (int i = 0; i < bench.losses; ++i) {
      train();
      line["losses"].push_back(loss);
    }
    std::cout << line.dump() << std::endl;
  } else {
    bench.run(train, {{"params", parameters.count()}}, {multiplications, parameters.count()});
  }
  if (!std::isfinite(loss)) throw std::runtime_error("the loss is not finite");
}

// Multiplications of forward and backward, which has twice as many; causal attention needs half of its scores.
double transformer_multiplications(const TransformerConfig& c, double sequences, double src, double tgt) {
  const double d = c.d_model, ffn = 2 * d * c.d_ff;
  const double encoder = c.enc_layers * src * (4 * d * d + ffn + 2 * src * d);
  const double decoder = c.dec_layers * (tgt * (6 * d * d + ffn + (tgt + 1 + 2 * src) * d) + src * 2 * d * d);
  return 3 * sequences * (encoder + decoder + tgt * d * c.tgt_vocabulary);
}

double language_model_multiplications(const LanguageModelConfig& c, double sequences) {
  const double d = c.d_model, length = c.max_length;
  return 3 * sequences * length * (c.n_layers * (12 * d * d + (length + 1) * d) + d * c.vocabulary);
}

void bench_transformer(const Bench& bench, const TransformerConfig& config, int sequences, int src_length,
                       int tgt_length, double smoothing, const Optimiser& optimiser) {
  Parameters parameters(1);
  const Transformer model(parameters.root(), config);
  const Ragged src = random_batch(sequences, src_length, config.src_vocabulary, 1),
               tgt = random_batch(sequences, tgt_length, config.tgt_vocabulary, 2),
               next = random_batch(sequences, tgt_length, config.tgt_vocabulary, 3);
  const double multiplications = transformer_multiplications(config, sequences, src_length, tgt_length);
  bench_training(
      bench, parameters, {src, tgt, next}, optimiser, multiplications, [&](std::size_t first, std::size_t last) {
        const Ragged target = part(next, first, last);
        return ShardLoss{
            .loss = cross_entropy(model.logits(part(src, first, last), part(tgt, first, last)), target.tokens,
                                  {.label_smoothing = smoothing, .reduction = Reduction::sum}),
            .count = static_cast<double>(target.tokens.size())};
      });
}

TransformerConfig addsub_config(const Bench& bench, int d_model, int n_heads, int d_ff) {
  return {.src_vocabulary = 16,
          .tgt_vocabulary = 16,
          .d_model = d_model,
          .n_heads = n_heads,
          .d_ff = d_ff,
          .enc_layers = 4,
          .dec_layers = 4,
          .dropout = bench.dropout(0.2),
          .dropout_place = DropoutPlace::after_norm,
          .max_length = 16,
          .share_embeddings = true,
          .scale_embeddings = false};
}

TransformerConfig base_config(const Bench& bench) {
  return {.src_vocabulary = 8000,
          .tgt_vocabulary = 8000,
          .dropout = bench.dropout(0.1),
          .max_length = 64,
          .share_embeddings = true,
          .tie_output = true};
}

void bench_reverse(const Bench& bench) {
  Parameters parameters(1);
  const Predictor model(parameters.root(), {.features = 10, .classes = 10, .max_length = 16});
  const Ragged batch = random_batch(128, 16, 10, 1), targets = random_batch(128, 16, 10, 2);
  const Optimiser optimiser{{.weight_decay = 0.01}, cosine_schedule(5e-4, 50, 20000), 5};
  bench_training(bench, parameters, {batch, targets}, optimiser, 0, [&](std::size_t first, std::size_t last) {
    const Ragged input = part(batch, first, last), target = part(targets, first, last);
    return ShardLoss{.loss = cross_entropy(model(one_hot(input.tokens, 10), input.offsets), target.tokens,
                                           {.reduction = Reduction::sum}),
                     .count = static_cast<double>(target.tokens.size())};
  });
}

void bench_language_model(const Bench& bench, const LanguageModelConfig& config, int sequences) {
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), config);
  const Ragged batch = random_batch(sequences, config.max_length, config.vocabulary, 1),
               targets = random_batch(sequences, config.max_length, config.vocabulary, 2);
  const Optimiser optimiser{{.beta2 = 0.99, .weight_decay = 0.1}, constant_schedule(1e-3), 1};
  const double multiplications = language_model_multiplications(config, sequences);
  bench_training(
      bench, parameters, {batch, targets}, optimiser, multiplications, [&](std::size_t first, std::size_t last) {
        const Ragged target = part(targets, first, last);
        return ShardLoss{
            .loss = cross_entropy(model(part(batch, first, last)), target.tokens, {.reduction = Reduction::sum}),
            .count = static_cast<double>(target.tokens.size())};
      });
}

void bench_attention(const Bench& bench) {
  constexpr int kHeads = 4 * 8, kWidth = 64;  // of all sequences
  for (const int length : bench.chosen({256, 512, 1024, 2048})) {
    const Shape shape{kHeads, length, kWidth};
    Parameters inputs(1);  // made once
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

int run(const std::vector<std::string>& arguments) {
  Bench bench;
  examples::CommandLine line("usage: bench_jobs [options]",
                             "Times one job; see the top of tests/bench/bench_jobs.cpp.");
  line.choice("job", &bench.job, {"J1", "J2", "J3", "J4", "J5", "J6", "J7", "J8", "charlm", "model"}, "which");
  line.integer("threads", &bench.threads, 1, 64, "threads");
  line.number("seconds", &bench.seconds, 0, 1000, "time to spend on each measurement");
  int batch = 16, length = 64, d_model = 128, layers = 2, vocabulary = 256;
  line.integer("batch", &batch, 1, 4096, "sequences of --job model");
  line.integer("length", &length, 1, 4096, "their length");
  line.integer("d-model", &d_model, 32, 4096, "width of --job model; a head for each 32");
  line.integer("layers", &layers, 1, 100, "its depth");
  line.integer("vocabulary", &vocabulary, 2, 100000, "its vocabulary");
  line.integer("only", &bench.only, 0, 2048, "of J6 only this length, of J7 only this batch; 0: all");
  line.integer("losses", &bench.losses, 0, 1000, "instead of timing, print the losses of so many steps");
  line.flag("floor", &bench.wants_floor,
            "for training steps but J3: measure what their products and Adam's traffic take alone");
  line.flag("by-turns", &bench.by_turns, "for tests/bench/by_turns: run for the milliseconds of each line of input");
  line.path("weights", &bench.weights, "where to save the initial weights, with --losses");
  if (!line.parse(arguments)) return 0;
  set_num_threads(bench.threads);
  const Optimiser addsub{{}, constant_schedule(1e-3), 0},
      base{{.beta2 = 0.98, .eps = 1e-9}, constant_schedule(1e-4), 0};
  if (bench.job == "J1") bench_transformer(bench, addsub_config(bench, 32, 4, 32), 64, 9, 4, 0, addsub);
  if (bench.job == "J2") bench_transformer(bench, addsub_config(bench, 256, 8, 512), 64, 9, 4, 0, addsub);
  if (bench.job == "J3") bench_reverse(bench);
  if (bench.job == "J4") bench_transformer(bench, base_config(bench), 16, 32, 32, 0.1, base);
  if (bench.job == "J5") bench_language_model(bench, {.vocabulary = 65, .dropout = bench.dropout(0.2)}, 8);
  if (bench.job == "charlm")
    bench_language_model(
        bench, {.vocabulary = 65, .d_model = 128, .n_heads = 4, .n_layers = 4, .dropout = 0, .max_length = 64}, 12);
  if (bench.job == "model")
    bench_language_model(bench,
                         {.vocabulary = vocabulary,
                          .d_model = d_model,
                          .n_heads = d_model / 32,
                          .n_layers = layers,
                          .dropout = 0.1,
                          .max_length = length},
                         batch);
  if (bench.job == "J6") bench_attention(bench);
  if (bench.job == "J7") bench_decode(bench);
  if (bench.job == "J8") bench_chain(bench);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::guarded(argv[0], [&] { return run({argv + 1, argv + argc}); });
}
