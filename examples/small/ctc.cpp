// Connectionist temporal classification (Graves et al. 2006): a network reads texts from frames without being told
// which frames belong to which symbol. The loss sums over all alignments; of a text with too few frames it is infinite,
// and its gradient is 0, not NaN. Takes a quarter of a second.
#include <seppo/autograd/ops.h>
#include <seppo/autograd/ops/ctc_loss.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kBatch = 16, kSymbols = 5, kClasses = 1 + kSymbols, kLongest = 6, kFrames = 5 * kLongest, kHidden = 64;

struct Batch {
  std::vector<double> frames;  // [batch, 1 + frames + 1, symbols]: noise, and 1 for the symbol that is shown
  std::vector<int> lengths;    // frames of each text; zeros before and behind them
  std::vector<std::vector<int>> texts;
};

Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    std::vector<int> text(3 + random.below(kLongest - 2)), shown;  // shown: 0 for a pause
    for (int& symbol : text) {
      symbol = 1 + random.index(kSymbols);
      shown.insert(shown.end(), 1 + random.below(2), 0);
      shown.insert(shown.end(), 1 + random.below(3), symbol);
    }
    for (int t = -1; t <= kFrames; ++t)
      for (int symbol = 1; symbol <= kSymbols; ++symbol) {
        const bool is_frame = t >= 0 && t < std::ssize(shown);
        const bool is_shown = is_frame && shown[static_cast<std::size_t>(t)] == symbol;
        batch.frames.push_back(is_frame ? is_shown + 0.15 * random.normal() : 0);
      }
    batch.lengths.push_back(static_cast<int>(shown.size()));
    batch.texts.push_back(text);
  }
  return batch;
}

struct Reader {
  explicit Reader(const Scope& s) : hidden(s / "hidden", 3 * kSymbols, kHidden), out(s / "out", kHidden, kClasses) {}

  // -> log-probabilities [frames, batch, classes], from each frame and its neighbours
  Tensor operator()(const Batch& batch) const {
    const Tensor frames = tensor({kBatch, kFrames + 2, kSymbols}, batch.frames);
    const Tensor windows = reshape(unfold(frames, 1, 3, 1), {kBatch, kFrames, 3 * kSymbols});
    return permute(log_softmax(out(hidden(windows, Activation::relu))), {1, 0, 2});
  }
  Linear hidden, out;
};

struct Training {
  Batch draw() { return ::draw(random); }
  double step(const Batch& batch) {
    tape().clear();
    const Tensor loss = ctc_loss(model(batch), batch.lengths, batch.texts, {.reduction = Reduction::sum}) / kBatch;
    backward(loss);
    adam.step(0.01);
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Reader model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  for (int step = 1; step <= 400; ++step) {
    const double loss = training.step(training.draw());
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }
  RandomStream random(/*seed=*/1, Purpose::test);
  int right = 0;
  for (int n = 0; n < 25; ++n) {
    const Inference inference;
    const Batch batch = draw(random);
    const std::vector<int> likeliest = argmax(training.model(batch));
    for (std::size_t i = 0; i < kBatch; ++i) {
      std::vector<int> text{0};  // without repetitions, then without blanks
      for (std::size_t t = 0; t < kFrames; ++t)
        if (likeliest[t * kBatch + i] != text.back()) text.push_back(likeliest[t * kBatch + i]);
      std::erase(text, 0);
      right += text == batch.texts[i];
    }
  }
  Batch batch = draw(random);
  batch.lengths[0] = 2;  // too few for its text
  const Tensor scores = variable({kFrames, kBatch, kClasses}, std::vector<real>(kFrames * kBatch * kClasses));
  const Tensor loss = ctc_loss(log_softmax(scores), batch.lengths, batch.texts);
  backward(loss);
  const bool is_finite = std::ranges::all_of(scores.grad(), [](real g) { return std::isfinite(g); });
  std::printf("%.1f %% of new texts are right; of one with too few frames, the loss is %g, gradients are %s\n",
              100.0 * right / (25 * kBatch), loss.item(), is_finite ? "finite" : "not finite");
  return right >= 23 * kBatch && std::isinf(loss.item()) && is_finite ? 0 : 1;
}
