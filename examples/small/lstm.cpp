// An LSTM (Hochreiter and Schmidhuber 1997) that reads endless streams in windows of 16 steps and carries its state
// from one window to the next. Now and then a stream shows a symbol; the target is the last symbol but one, often shown
// several windows ago. Backpropagation is truncated at the window. Takes half a second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

using namespace seppo;

constexpr int kStreams = 16, kSteps = 16, kSymbols = 8, kNothing = kSymbols, kHidden = 32;

struct Batch {
  std::vector<int> shown, asked;  // [steps, streams], row-major: the input, and the last symbol but one so far
};

// The windows of all streams, one after another.
struct Streams {
  explicit Streams(Purpose purpose) : random(/*seed=*/1, purpose) {}

  Batch next() {
    Batch batch;
    for (int t = 0; t < kSteps; ++t)
      for (auto& [last, last_but_one] : seen) {
        const bool shows = random.below(8) == 0;
        if (shows) last_but_one = std::exchange(last, random.index(kSymbols));
        batch.shown.push_back(shows ? last : kNothing);
        batch.asked.push_back(last_but_one);
      }
    return batch;
  }

  RandomStream random;
  std::vector<std::pair<int, int>> seen = std::vector<std::pair<int, int>>(kStreams);
};

// The state carried over to the next window, [streams, hidden]: as numbers, because tensors die with their tape.
struct State {
  std::vector<real> h = std::vector<real>(kStreams * kHidden), c = h;
};

struct Model {
  explicit Model(const Scope& s)
      : embedding(s / "embedding", kSymbols + 1, kHidden),
        from_input(s / "from_input", kHidden, 4 * kHidden),
        from_state(s / "from_state", kHidden, 4 * kHidden),
        output(s / "output", kHidden, kSymbols) {}

  // -> [steps * streams, symbols]; advances the state.
  Tensor operator()(const Batch& batch, State& state) const {
    const std::vector<Tensor> inputs = chunk(from_input(embedding(batch.shown)), kSteps);
    Tensor h = tensor({kStreams, kHidden}, state.h), c = tensor({kStreams, kHidden}, state.c);
    std::vector<Tensor> all;
    for (const Tensor& input : inputs) {
      const std::vector<Tensor> gate = chunk(input + from_state(h), 4, /*axis=*/1);
      c = sigmoid(gate[1]) * c + sigmoid(gate[0]) * tanh(gate[2]);
      h = sigmoid(gate[3]) * tanh(c);
      all.push_back(h);
    }
    std::ranges::copy(h.values(), state.h.begin());
    std::ranges::copy(c.values(), state.c.begin());
    return output(concat(all));
  }

  Embedding embedding;
  Linear from_input, from_state, output;
};

struct Training {
  Batch draw() { return streams.next(); }

  double step(const Batch& batch) {
    tape().clear();
    const Tensor loss = cross_entropy(model(batch, state), batch.asked);
    backward(loss);
    adam.step(0.01, clip_factor(gradient_norm(parameters), 1));
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Model model{parameters.root()};
  Adam adam{parameters};
  Streams streams{Purpose::data};
  State state;
};

// The share of right answers in new streams, with the state carried on or forgotten after each window.
double right(const Model& model, bool carries) {
  Streams streams(Purpose::test);
  State state;
  int hits = 0, all = 0;
  for (int window = 0; window < 50; ++window) {
    const Inference inference;
    const Batch batch = streams.next();
    if (!carries) state = State();
    const std::vector<int> answers = argmax(model(batch, state));
    if (window < 5) continue;  // wait until each stream has shown two symbols
    for (std::size_t i = 0; i < answers.size(); ++i, ++all) hits += answers[i] == batch.asked[i];
  }
  return 1.0 * hits / all;
}

int main() {
  Training training;
  for (int step = 1; step <= 600; ++step) {
    const double loss = training.step(training.draw());
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }
  const double carried = right(training.model, true), forgotten = right(training.model, false);
  std::printf("the last symbol but one is known %.1f %% of the time; %.1f %% if each window starts anew\n",
              100 * carried, 100 * forgotten);
  return carried >= 0.98 && forgotten <= 0.6 ? 0 : 1;
}
