// BERT (Devlin et al. 2019) learns to fill in masked symbols, here of palindromes: a masked one is known from its
// mirror image, wherever that is. The trained weights go to Hugging Face's names (BertForMaskedLM) and back. Takes two
// seconds.
#include <seppo/models/bert.h>
#include <seppo/nn/io/foreign_weights.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/train/metrics.h>

#include <cstdio>
#include <filesystem>
#include <vector>

using namespace seppo;

constexpr int kBatch = 32, kHalf = 8, kLength = 2 * kHalf, kSymbols = 16, kMask = kSymbols;

struct Batch {
  Ragged texts;
  std::vector<int> rows, symbols;  // what is to be filled in, and with what
};

// In 30 % of the pairs of mirror images one is chosen. It is masked in 80 % of the cases, any symbol in 10 %.
Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    int text[kLength];
    for (int left = 0; left < kHalf; ++left) {
      const int right = kLength - 1 - left;
      text[left] = text[right] = random.index(kSymbols);
      if (random.uniform() >= 0.3) continue;
      const int chosen = random.index(2) == 0 ? left : right;
      batch.rows.push_back(n * kLength + chosen);
      batch.symbols.push_back(text[chosen]);
      const double luck = random.uniform();
      if (luck < 0.9) text[chosen] = luck < 0.8 ? kMask : random.index(kSymbols);
    }
    batch.texts.add(text);
  }
  return batch;
}

struct Model {
  explicit Model(const Scope& s, const BertConfig& c) : bert(s / "bert", c), head(s / "cls", c) {}
  Tensor operator()(const Batch& batch) const {  // [chosen, symbols]
    return head(index_select(bert(batch.texts), 0, batch.rows), bert.words);
  }
  Bert bert;
  MaskedHead head;
};

const BertConfig kConfig{
    .vocabulary = kSymbols + 1,
    .layer = {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0, .activation = Activation::gelu, .eps = 1e-12},
    .n_layers = 2,
    .max_length = kLength};

struct Training {
  Batch draw() { return ::draw(random); }

  double step(const Batch& batch) {
    tape().clear();
    const Tensor loss = cross_entropy(model(batch), batch.symbols);
    backward(loss);
    adam.step(3e-3, clip_factor(gradient_norm(parameters), 1));
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Model model{parameters.root(), kConfig};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  for (int step = 1; step <= 600; ++step) {
    const double loss = training.step(training.draw());
    if (step % 200 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }

  const char* const path = "bert-small.safetensors";
  save_weights(path, training.parameters, bert_weights());
  Parameters parameters(/*seed=*/2);
  const Model again(parameters.root(), kConfig);
  load_weights(path, parameters, bert_weights());
  std::filesystem::remove(path);

  const Inference inference;
  RandomStream random(/*seed=*/1, Purpose::test);
  const Batch batch = draw(random);
  const Tensor scores = training.model(batch);
  const double right = accuracy(scores, batch.symbols);
  const double change = amax(abs(scores - again(batch))).item();
  std::printf("%.1f %% of new masks filled in; the scores of the weights read back differ by %g\n", 100 * right,
              change);
  return right >= 0.97 && change == 0 ? 0 : 1;
}
