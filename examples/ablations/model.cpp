// The model's forward pass, and its training.
#include "ablations/model.h"

#include <seppo/nn/data/sampler.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ablations {
namespace {

constexpr int kBatch = 64, kTested = 640;

// The scores up to the diagonal, and `masked` above it.
Tensor with_masked_scores(const Tensor& scores, double masked) {
  const int n = scores.size(-1);
  return where(tril(seppo::ones({n, n})), scores, static_cast<seppo::real>(masked));
}

struct Example {
  std::vector<int> digits, reversed;
};

Example draw(std::uint64_t seed, int row) {
  seppo::RandomStream random(seed, seppo::Purpose::data, static_cast<std::uint32_t>(row));
  Example e;
  for (int i = 0; i < kLength; ++i) e.digits.push_back(random.index(kDigits));
  e.reversed.assign(e.digits.rbegin(), e.digits.rend());
  return e;
}

// The rows of a decoder's scores that belong to its answer: from the last of the given digits on.
Tensor of_the_answer(const Tensor& scores) {
  const int positions = 2 * kLength - 1;
  const Tensor by_sequence = reshape(scores, {-1, positions, kDigits});
  return reshape(slice(by_sequence, 1, kLength - 1, positions), {-1, kDigits});
}

// In training, a decoder reads the right digits before each one that it writes.
seppo::ShardLoss loss_of(const Model& model, std::uint64_t seed, std::span<const int> rows) {
  const bool writes = model.parts.writes();
  std::vector<int> read, right;
  for (const int row : rows) {
    const Example e = draw(seed, row);
    read.insert(read.end(), e.digits.begin(), e.digits.end());
    if (writes) read.insert(read.end(), e.reversed.begin(), e.reversed.end() - 1);
    right.insert(right.end(), e.reversed.begin(), e.reversed.end());
  }
  const Tensor scores = model(read, model.parts.positions_read());
  return seppo::classification_loss(writes ? of_the_answer(scores) : scores, right);
}

// The decoder's answers, each digit after those that it has written itself.
seppo::Sums score_of_writing(const Model& model, std::uint64_t seed, std::span<const int> rows) {
  std::vector<Example> examples;
  std::vector<std::vector<int>> texts;
  for (const int row : rows) {
    examples.push_back(draw(seed, row));
    texts.push_back(examples.back().digits);
  }
  double correct = 0;
  for (int i = 0; i < kLength; ++i) {
    std::vector<int> read;
    for (const std::vector<int>& text : texts) read.insert(read.end(), text.begin(), text.end());
    const std::vector<int> best = argmax(model(read, kLength + i));
    for (std::size_t s = 0; s < texts.size(); ++s) {
      texts[s].push_back(best[(s + 1) * static_cast<std::size_t>(kLength + i) - 1]);
      correct += texts[s].back() == examples[s].reversed[static_cast<std::size_t>(i)];
    }
  }
  return {{"count", static_cast<double>(rows.size() * kLength)}, {"correct", correct}};
}

}  // namespace

Tensor Block::mix(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const double scale = parts.divides_scores ? 0 : 1;
  if (!parts.writes()) return attention(q, k, v, parts.heads, {.dropout = parts.attention_dropout, .scale = scale});
  if (std::isinf(*parts.masked_score))
    return attention(q, k, v, parts.heads, {.mask = seppo::Mask::causal(), .scale = scale});
  const Tensor scores = attention_scores(q, k, /*n_heads=*/1, {.scale = scale});  // [sequences, 1, queries, keys]
  const Tensor weights = softmax(with_masked_scores(scores, *parts.masked_score));
  return matmul(reshape(weights, {q.size(0), q.size(1), k.size(1)}), v);
}

Tensor Block::operator()(const Tensor& x) const {
  const Tensor mixed = output(mix(query(x), key(x), value(x)));
  const Tensor y = norm_1(parts.residuals ? x + mixed : mixed);
  return norm_2(parts.residuals ? y + ffn(y) : ffn(y));
}

Model::Model(const seppo::Scope& s, const Parts& p)
    : embedding(s / "embedding", kDigits, p.width),
      positions(s / "positions", seppo::Positions::sinusoid, 2 * kLength, p.width),
      classes(s / "classes", p.width, kDigits),
      parts(p) {
  for (int i = 0; i < p.layers; ++i) blocks.emplace_back(s / i, p);
}

Tensor Model::operator()(std::span<const int> tokens, int positions_read) const {
  Tensor x = reshape(embedding(tokens), {-1, positions_read, parts.width});
  if (parts.positions) x = x + seppo::embedding(positions.table, positions.ids({0, positions_read}));
  for (const Block& block : blocks) x = block(x);
  return classes(reshape(x, {-1, parts.width}));
}

double accuracy_of(const Parts& parts, std::uint64_t seed, int steps) {
  seppo::Parameters parameters(seed);
  const Model model(parameters.root(), parts);
  const auto loss = [&](std::span<const int> rows) { return loss_of(model, seed, rows); };
  seppo::Sgd sgd(parameters, {.momentum = 0.9});
  seppo::Adam adam(parameters);
  seppo::Trainer trainer(parameters, parts.sgd ? seppo::AnyOptimiser(sgd) : seppo::AnyOptimiser(adam),
                         {.lr = parts.lr,
                          .schedule = seppo::ScheduleKind::cosine,
                          .warmup_steps = std::min(50, steps / 2),
                          .steps = steps,
                          .whole_batch = parts.norm == WhichNorm::batch});
  seppo::Sampler sampler(static_cast<std::size_t>(steps) * kBatch, {.batch_size = kBatch});
  while (trainer.steps() < steps) trainer.step(sampler.next(), loss);
  std::vector<int> test(kTested);
  std::iota(test.begin(), test.end(), steps * kBatch);
  if (parts.writes())
    return seppo::evaluate(test, [&](std::span<const int> rows) { return score_of_writing(model, seed, rows); })
        .mean("correct");
  return seppo::evaluate(test, [&](std::span<const int> rows) -> seppo::Sums { return loss(rows); }).mean("correct");
}

}  // namespace ablations
