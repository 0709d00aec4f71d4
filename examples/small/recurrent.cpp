// A gated recurrent cell (Cho et al. 2014) written from basic ops: it learns the running parity of bits, and
// keeps it for sequences much longer than those it saw. docs/write-a-module.md walks through it.
#include <seppo/autograd/ops.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/layers/linear.h>

#include <cstdio>
#include <vector>

using namespace seppo;

struct GatedCell {
  GatedCell(const Scope& s, int inputs, int hidden)
      : from_input(s / "from_input", inputs, 3 * hidden), from_state(s / "from_state", hidden, 3 * hidden) {}

  // x [batch, inputs], h [batch, hidden] -> the next h
  Tensor operator()(const Tensor& x, const Tensor& h) const {
    const std::vector<Tensor> a = chunk(from_input(x), 3, 1), b = chunk(from_state(h), 3, 1);
    const Tensor reset = sigmoid(a[0] + b[0]);
    const Tensor update = sigmoid(a[1] + b[1]);
    const Tensor candidate = tanh(a[2] + reset * b[2]);
    return update * h + (1 - update) * candidate;
  }

  Linear from_input, from_state;
};

struct ParityModel {
  explicit ParityModel(const Scope& s) : cell(s / "cell", 1, kHidden), output(s / "output", kHidden, 2) {}

  // bits[t] holds the t-th bit of each sequence. -> [steps batch, 2]: odd so far?
  Tensor operator()(const std::vector<std::vector<real>>& bits) const {
    const int batch = static_cast<int>(bits.front().size());
    Tensor h = zeros({batch, kHidden});
    std::vector<Tensor> states;
    for (const std::vector<real>& now : bits) {
      h = cell(tensor({batch, 1}, now), h);
      states.push_back(h);
    }
    return output(concat(states));
  }

  static constexpr int kHidden = 16;
  GatedCell cell;
  Linear output;
};

struct Batch {
  std::vector<std::vector<real>> bits;  // [steps][batch]
  std::vector<int> parity;              // in the order of the model's rows
};

Batch random_bits(int steps, std::size_t batch, RandomStream random) {
  Batch b;
  std::vector<int> odd(batch, 0);
  for (int t = 0; t < steps; ++t) {
    std::vector<real> now(batch);
    for (std::size_t i = 0; i < batch; ++i) {
      const auto bit = static_cast<int>(random.below(2));
      now[i] = static_cast<real>(bit);
      odd[i] ^= bit;
    }
    b.bits.push_back(now);
    b.parity.insert(b.parity.end(), odd.begin(), odd.end());
  }
  return b;
}

double accuracy(const ParityModel& model, const Batch& batch) {
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  const std::vector<int> guesses = argmax(model(batch.bits));
  int right = 0;
  for (std::size_t i = 0; i < guesses.size(); ++i) right += guesses[i] == batch.parity[i];
  return static_cast<double>(right) / static_cast<double>(guesses.size());
}

int main() {
  Parameters parameters(/*seed=*/1);
  const ParityModel model(parameters.root());
  Adam adam(parameters);
  for (int step = 1; step <= 1200; ++step) {
    tape().clear();
    const Batch batch = random_bits(16, 32, {static_cast<std::uint64_t>(step), Purpose::data});
    const Tensor loss = cross_entropy(model(batch.bits), batch.parity);
    tape().backward(loss);
    adam.step(0.01, clip_factor(gradient_norm(parameters), 1.0));
    if (step % 200 == 0) std::printf("step %d: loss %.4f\n", step, static_cast<double>(loss.item()));
  }
  const double seen = accuracy(model, random_bits(16, 100, {1, Purpose::test}));
  const double longer = accuracy(model, random_bits(100, 100, {2, Purpose::test}));
  std::printf("right at length 16: %.1f %%, at length 100: %.1f %%\n", 100 * seen, 100 * longer);
  return seen == 1 && longer > 0.99 ? 0 : 1;
}
