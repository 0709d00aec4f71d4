// Ablations of a Transformer: the same encoder is trained to reverse 16 digits, whole and with one part removed, and
// the percentage of correct digits is printed for each seed. docs/answers.md quotes the table.
//   ablations [number of seeds]
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/feed_forward.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/modules/positional_encoding.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

using namespace seppo;

constexpr int kLength = 16, kDigits = 10;

struct Parts {
  int layers = 1, width = 32;
  bool residuals = true, separate_keys = true;
};

struct Block {
  Block(const Scope& s, const Parts& parts)
      : query(s / "query", parts.width, parts.width),
        key(parts.separate_keys ? Linear(s / "key", parts.width, parts.width) : query),
        value(s / "value", parts.width, parts.width),
        output(s / "output", parts.width, parts.width),
        ffn(s / "ffn", parts.width, 2 * parts.width),
        norm_1(s / "norm_1", parts.width),
        norm_2(s / "norm_2", parts.width),
        parts(parts) {}

  Tensor operator()(const Tensor& x) const {  // [sequences, kLength, width]
    const Tensor mixed = output(attention(query(x), key(x), value(x), /*n_heads=*/1));
    const Tensor y = norm_1(parts.residuals ? x + mixed : mixed);
    return norm_2(parts.residuals ? y + ffn(y) : ffn(y));
  }

  Linear query, key, value, output;
  FeedForward ffn;
  LayerNorm norm_1, norm_2;
  Parts parts;
};

struct Model {
  Model(const Scope& s, const Parts& parts)
      : embedding(s / "embedding", kDigits, parts.width),
        positions(s / "positions", Positions::sinusoid, kLength, parts.width),
        classes(s / "classes", parts.width, kDigits) {
    for (int i = 0; i < parts.layers; ++i) blocks.emplace_back(s / i, parts);
  }

  Tensor operator()(const std::vector<int>& digits) const {  // [digits, kDigits]
    const Tensor order = seppo::embedding(positions.table, positions.ids({0, kLength}));
    Tensor x = reshape(embedding(digits), {-1, kLength, embedding.weight.size(1)}) + order;
    for (const Block& block : blocks) x = block(x);
    return classes(reshape(x, {-1, embedding.weight.size(1)}));
  }

  Embedding embedding;
  PositionalEncoding positions;
  std::vector<Block> blocks;
  Linear classes;
};

// The share of correct digits in 640 new sequences after 800 steps.
double accuracy_of(const Parts& parts, std::uint64_t seed) {
  Parameters parameters(seed);
  const Model model(parameters.root(), parts);
  const auto loss = [&](std::span<const int> rows) {
    std::vector<int> digits, reversed;
    for (const int row : rows) {
      RandomStream random(seed, Purpose::data, row);
      for (int i = 0; i < kLength; ++i) digits.push_back(random.index(kDigits));
      reversed.insert(reversed.end(), digits.rbegin(), digits.rbegin() + kLength);
    }
    return classification_loss(model(digits), reversed);
  };
  const int steps = 800, batch = 64;
  Trainer trainer(parameters, {.lr = 1e-3, .schedule = ScheduleKind::cosine, .warmup_steps = 50, .steps = steps});
  Sampler sampler(steps * batch, {.batch_size = batch});
  while (trainer.steps() < steps) trainer.step(sampler.next(), loss);
  std::vector<int> test(640);
  std::iota(test.begin(), test.end(), steps * batch);
  return evaluate(test, loss).mean("correct");
}

int main(int argc, char** argv) {
  set_num_threads(2);
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 1;
  const auto row = [&](const char* what, const Parts& parts) {
    std::vector<double> found;
    std::printf("%-44s", what);
    for (int seed = 0; seed < seeds; ++seed) {
      found.push_back(accuracy_of(parts, static_cast<std::uint64_t>(seed)));
      std::printf(" %6.1f", 100 * found.back());
      std::fflush(stdout);
    }
    std::printf("\n");
    return std::accumulate(found.begin(), found.end(), 0.0) / seeds;
  };
  const double deep = row("4 layers", {.layers = 4});
  const double without_residuals = row("4 layers, no residual connections", {.layers = 4, .residuals = false});
  const double shallow = row("1 layer", {});
  const double tied = row("1 layer, one projection for Q and K", {.separate_keys = false});
  row("2 layers, one projection for Q and K", {.layers = 2, .separate_keys = false});
  return deep > 0.99 && without_residuals < 0.5 && shallow > 0.8 && tied < shallow - 0.1 ? 0 : 1;
}
