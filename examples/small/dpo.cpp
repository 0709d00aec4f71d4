// Direct preference optimisation (Rafailov et al. 2023): a small language model repeats four numbers, in figures or in
// words, as its training texts do. Then, on pairs of answers, it learns to prefer words and answers as correctly as
// before: a frozen copy is the reference from which it may not stray far, and the loss includes a small term for the
// likelihood of the preferred answers, as for Llama 3 (Dubey et al. 2024, 4.1.4). Takes one second.
#include <seppo/models/transformer.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/positional_encoding.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kFigures = 10, kVocabulary = 2 * kFigures, kPrompt = 4, kLength = 2 * kPrompt, kPairs = 16;
constexpr double kBeta = 0.1, kLikelihood = 0.1;

using Prompt = std::array<int, kPrompt>;

Prompt draw_prompt(RandomStream& random) {
  Prompt prompt;
  for (int& figure : prompt) figure = random.index(kFigures);
  return prompt;
}

// A prompt and its answer: the same numbers in figures, 0 to 9, or in words, 10 to 19.
std::vector<int> text_of(const Prompt& prompt, bool in_words) {
  std::vector<int> text(prompt.begin(), prompt.end());
  for (const int figure : prompt) text.push_back(figure + (in_words ? kFigures : 0));
  return text;
}

struct Policy {
  explicit Policy(const Scope& s)
      : embedding(s / "embedding", kVocabulary, 32, init_normal(0.2)),
        positions(s / "positions", Positions::sinusoid, kLength, 32),
        layers(s / "layers", /*n_layers=*/1,
               {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0, .norm = Norm::pre}) {}

  // The log-probability of each text's answer: [texts].
  Tensor operator()(const Ragged& texts) const {
    const Ragged seen = texts.without_last(), next = texts.without_first();
    const Tensor x = layers(positions(embedding(seen.tokens), seen.offsets), seen.offsets, {.mask = Mask::causal()});
    const Tensor scores = log_softmax(embedding.as_linear(x));  // [rows, vocabulary]
    const Tensor chosen = gather(scores, 1, {{scores.size(0), 1}, next.tokens});
    return sum(slice(reshape(chosen, {-1, kLength - 1}), 1, kPrompt - 1, kLength - 1), 1);
  }

  Embedding embedding;
  PositionalEncoding positions;
  Encoder layers;
};

using Batch = Ragged;  // the preferred answers, then the others, to the same prompts

struct Training {
  Training() {
    RandomStream random_texts(/*seed=*/1, Purpose::data, /*index=*/1);
    for (int step = 0; step < 800; ++step) {  // on answers of both kinds
      Ragged texts;
      for (int n = 0; n < 2 * kPairs; ++n) texts.add(text_of(draw_prompt(random_texts), random_texts.below(2) == 0));
      tape().clear();
      backward(-mean(policy(texts)));
      adam.step(3e-3, clip_factor(gradient_norm(parameters), 1));
    }
    std::ranges::copy(parameters.values(), reference_parameters.edit().begin());
    reference_parameters.freeze("");
  }

  Batch draw() {
    std::vector<Prompt> prompts;
    for (int n = 0; n < kPairs; ++n) prompts.push_back(draw_prompt(random));
    Batch pairs;
    for (const bool in_words : {true, false})
      for (const Prompt& prompt : prompts) pairs.add(text_of(prompt, in_words));
    return pairs;
  }

  // -log sigmoid(beta * (by how much its preference exceeds the reference's)), and a small likelihood term
  double step(const Batch& pairs) {
    tape().clear();
    const Tensor scores = policy(pairs);
    const std::vector<Tensor> gain = chunk(scores - reference(pairs), 2);
    const Tensor likelihood = mean(slice(scores, 0, 0, kPairs));
    const Tensor loss = mean(softplus(-kBeta * (gain[0] - gain[1]))) - kLikelihood * likelihood;
    backward(loss);
    preference_adam.step(5e-4);
    return loss.item();
  }

  Parameters parameters{/*seed=*/1}, reference_parameters{/*seed=*/1};
  Policy policy{parameters.root()}, reference{reference_parameters.root()};
  Adam adam{parameters}, preference_adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

// The mean probability of the correct answer of this kind to new prompts.
double probability(const Policy& policy, bool in_words) {
  const Inference inference;
  RandomStream random(/*seed=*/1, Purpose::test);
  Ragged texts;
  for (int n = 0; n < 200; ++n) texts.add(text_of(draw_prompt(random), in_words));
  return mean(exp(policy(texts))).item();
}

int main() {
  Training training;
  const double before = probability(training.policy, true);
  std::printf("before: right in words with probability %.3f, in figures %.3f\n", before,
              probability(training.policy, false));
  for (int step = 1; step <= 150; ++step) {
    const double loss = training.step(training.draw());
    if (step % 50 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }
  const double after = probability(training.policy, true);
  std::printf("after:  right in words with probability %.3f, in figures %.3f\n", after,
              probability(training.policy, false));
  return before > 0.3 && before < 0.7 && after > 0.9 ? 0 : 1;
}
