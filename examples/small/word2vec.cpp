// Word vectors from texts, word2vec's skip-gram with negative sampling (Mikolov et al. 2013): the vector of a word must
// tell the words beside it from others. Here each of 32 meanings, which follow each other on a ring, has a common and a
// rare word; that these are synonyms is seen from their company alone. Takes one second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/optim/adam.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kMeanings = 32, kWords = 2 * kMeanings, kWidth = 16;
constexpr int kTexts = 8, kLength = 16, kWindow = 2, kNegatives = 5;
constexpr double kRare = 0.25;  // of a meaning's occurrences

struct Batch {
  std::vector<int> words;   // one for each pair
  std::vector<int> beside;  // [pairs, 1 + negatives]: a word beside it, and others
};

// Negative examples are drawn by the 3/4 power of the words' frequencies.
int draw_negative(RandomStream& random) {
  const double rare = std::pow(kRare, 0.75), common = std::pow(1 - kRare, 0.75);
  const int meaning = random.index(kMeanings);
  return 2 * meaning + (random.uniform() < rare / (rare + common));
}

Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kTexts; ++n) {
    int text[kLength];
    int meaning = random.index(kMeanings);
    for (int& word : text) {
      meaning = (meaning + 1 + random.index(2)) % kMeanings;
      word = 2 * meaning + (random.uniform() < kRare);
    }
    for (int i = kWindow; i < kLength - kWindow; ++i)
      for (int j = i - kWindow; j <= i + kWindow; ++j) {
        if (j == i) continue;
        batch.words.push_back(text[i]);
        batch.beside.push_back(text[j]);
        for (int k = 0; k < kNegatives; ++k) batch.beside.push_back(draw_negative(random));
      }
  }
  return batch;
}

struct SkipGram {
  explicit SkipGram(const Scope& s)
      : words(s / "words", kWords, kWidth, init_normal(0.3)), beside(s / "beside", kWords, kWidth, init_zeros()) {}

  // How much each word is expected beside the one of its row: [pairs, 1 + negatives].
  Tensor operator()(const Batch& batch) const {
    const Tensor word = unsqueeze(words(batch.words), 1);
    return sum(word * reshape(beside(batch.beside), {-1, 1 + kNegatives, kWidth}), -1);
  }

  Embedding words, beside;
};

struct Training {
  Batch draw() { return ::draw(random); }

  double step(const Batch& batch) {
    tape().clear();
    const Tensor scores = model(batch);
    const Tensor is_beside = concat({ones({scores.size(0), 1}), zeros({scores.size(0), kNegatives})}, 1);
    const Tensor loss = (1 + kNegatives) * binary_cross_entropy_with_logits(scores, is_beside);
    backward(loss);
    adam.step(0.01);
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  SkipGram model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

// How many words have their synonym as the nearest, by the angle between their vectors?
int count_right(const SkipGram& model) {
  const Inference inference;
  const Tensor& x = model.words.weight;
  const Tensor direction = x / norm(x, 1, /*keepdim=*/true);
  const std::vector<int> nearest = topk(matmul(direction, transpose(direction)), 2).indices;  // itself, and another
  int right = 0;
  for (std::size_t word = 0; word < kWords; ++word) right += nearest[2 * word + 1] == static_cast<int>(word ^ 1);
  return right;
}

int main() {
  Training training;
  for (int step = 1; step <= 1500; ++step) {
    const double loss = training.step(training.draw());
    if (step % 500 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }
  const int right = count_right(training.model);
  std::printf("the nearest word is the synonym for %d of %d words\n", right, kWords);
  return right >= 0.95 * kWords ? 0 : 1;
}
