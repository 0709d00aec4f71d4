// LLaMA (Touvron et al. 2023) from its parts: RMS norm, rotary positions, grouped-query attention, SwiGLU, no biases.
// It reads ten random symbols and repeats them, even at positions never seen in training, because rotary positions are
// relative. `LanguageModel` (models/language_model.h) is the whole model, ready-made. Takes one second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kBatch = 32, kSymbols = 16, kHalf = 10, kLength = 2 * kHalf;
constexpr int kModel = 32, kHeads = 4, kHeadsOfKeys = 2, kWidth = kModel / kHeads, kHidden = 64, kPlaces = 600;

struct Batch {
  Ragged texts;
  std::vector<int> next;  // of each token but the last of each text; -1 where it is unpredictable
};

Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    std::vector<int> text;
    for (std::size_t i = 0; i < kLength; ++i) text.push_back(i < kHalf ? random.index(kSymbols) : text[i - kHalf]);
    batch.texts.add(text);
    for (std::size_t i = 1; i <= kLength; ++i) batch.next.push_back(i < kHalf || i == kLength ? -1 : text[i]);
  }
  return batch;
}

const LinearOptions kNoBias{.bias = false};
const LayerNormOptions kRms{.kind = NormKind::rms};

struct Block {
  explicit Block(const Scope& s)
      : query(s / "query", kModel, kModel, kNoBias),
        key(s / "key", kModel, kHeadsOfKeys * kWidth, kNoBias),
        value(s / "value", kModel, kHeadsOfKeys * kWidth, kNoBias),
        out(s / "out", kModel, kModel, kNoBias),
        gate(s / "gate", kModel, kHidden, kNoBias),
        up(s / "up", kModel, kHidden, kNoBias),
        down(s / "down", kHidden, kModel, kNoBias),
        norm1(s / "norm1", kModel, kRms),
        norm2(s / "norm2", kModel, kRms) {}

  Tensor operator()(const Tensor& x, Offsets rows, const Tensor& angles, std::span<const int> places) const {
    const Tensor a = norm1(x);
    const Tensor q = rotary(query(a), kHeads, angles, places), k = rotary(key(a), kHeadsOfKeys, angles, places);
    const Tensor y = x + out(attention(q, k, value(a), kHeads, rows, rows, {.mask = Mask::causal()}));
    const Tensor b = norm2(y);
    return y + down(silu(gate(b)) * up(b));
  }

  Linear query, key, value, out, gate, up, down;
  LayerNorm norm1, norm2;
};

struct Llama {
  explicit Llama(const Scope& s)
      : embedding(s / "embedding", kSymbols, kModel, init_normal(0.1)), norm(s / "norm", kModel, kRms) {
    for (int i = 0; i < 2; ++i) blocks.emplace_back(s / "blocks" / i);
    angles = s.constant({kPlaces, kWidth}, [](std::span<real> values, const Shape&, RandomStream&) {
      for (int i = 0; real & value : values) {
        const double angle = i / kWidth * std::pow(10000.0, -(i % kWidth / 2 * 2.0) / kWidth);
        value = static_cast<real>(i++ % 2 == 0 ? std::cos(angle) : std::sin(angle));
      }
    });
  }

  // The scores of each next token, [tokens, symbols], for texts that begin at this position.
  Tensor operator()(const Ragged& texts, int first = 0) const {
    std::vector<int> places(texts.tokens.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = first + static_cast<int>(i % kLength);
    Tensor x = embedding(texts.tokens);
    for (const Block& block : blocks) x = block(x, texts.offsets, angles, places);
    return embedding.as_linear(norm(x));
  }

  Embedding embedding;
  std::vector<Block> blocks;
  LayerNorm norm;
  Tensor angles;  // cos and sin for each position, side by side
};

struct Training {
  Batch draw() { return ::draw(random); }

  double step(const Batch& batch) {
    tape().clear();
    const Tensor loss = cross_entropy(model(batch.texts), batch.next, {.ignore_index = -1});
    backward(loss);
    adam.step(5e-3, clip_factor(gradient_norm(parameters), 1));
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Llama model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

// The share of correct predictions in the second halves of new texts that begin at this position.
double right(const Llama& model, int first) {
  const Inference inference;
  RandomStream random(/*seed=*/1, Purpose::test);
  const Batch batch = draw(random);
  const std::vector<int> guess = argmax(model(batch.texts, first));
  int hits = 0;
  for (std::size_t i = 0; i < guess.size(); ++i) hits += guess[i] == batch.next[i];
  return 1.0 * hits / (kBatch * kHalf);
}

int main() {
  Training training;
  for (int step = 1; step <= 300; ++step) {
    const double loss = training.step(training.draw());
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }
  const double here = right(training.model, 0), elsewhere = right(training.model, 500);
  std::printf("%.1f %% of new halves repeated, %.1f %% at places never seen\n", 100 * here, 100 * elsewhere);
  return here >= 0.98 && elsewhere >= 0.98 ? 0 : 1;
}
