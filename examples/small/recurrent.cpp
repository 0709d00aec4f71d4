// A gated recurrent cell (Cho et al. 2014) written from basic ops: it learns the running parity of bits and keeps it
// for sequences much longer than those it was trained on. docs/write-a-module.md walks through it.
#include <seppo/autograd/ops.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <cstdio>
#include <numeric>
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

  // bits[t] holds the t-th bit of each sequence. -> [steps * batch, 2]: odd so far?
  Tensor operator()(const std::vector<std::vector<int>>& bits) const {
    const std::size_t batch = bits.front().size();
    Tensor h = zeros({batch, kHidden});
    std::vector<Tensor> states;
    for (const std::vector<int>& now : bits) {
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
  std::vector<std::vector<int>> bits;  // [steps][batch]
  std::vector<int> parity;             // in the order of the model's rows
};

// The sequences of these numbers: each is drawn from a random stream of its own.
Batch random_bits(std::span<const int> rows, int steps, Purpose purpose) {
  std::vector<RandomStream> streams;
  for (const int row : rows) streams.emplace_back(/*seed=*/1, purpose, row);
  Batch b;
  std::vector<int> odd(rows.size(), 0);
  for (int t = 0; t < steps; ++t) {
    b.bits.emplace_back();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const int bit = streams[i].index(2);
      b.bits.back().push_back(bit);
      odd[i] ^= bit;
    }
    b.parity.insert(b.parity.end(), odd.begin(), odd.end());
  }
  return b;
}

int main() {
  Parameters parameters(/*seed=*/1);
  const ParityModel model(parameters.root());
  Trainer trainer(parameters, {.lr = 0.01});
  Sampler sampler(/*examples=*/38'400, {.batch_size = 32});
  for (int step = 1; step <= 1200; ++step) {
    const StepResult now = trainer.step(sampler.next(), [&](std::span<const int> rows) {
      const Batch batch = random_bits(rows, 16, Purpose::data);
      return classification_loss(model(batch.bits), batch.parity);
    });
    if (step % 200 == 0) std::printf("step %d: loss %.4f\n", step, now.loss);
  }

  std::vector<int> rows(100);
  std::iota(rows.begin(), rows.end(), 0);
  const Inference inference;
  const Batch seen = random_bits(rows, 16, Purpose::test), longer = random_bits(rows, 100, Purpose::test);
  const double right = accuracy(model(seen.bits), seen.parity), kept = accuracy(model(longer.bits), longer.parity);
  std::printf("right at length 16: %.1f %%, at length 100: %.1f %%\n", 100 * right, 100 * kept);
  return right == 1 && kept > 0.99 ? 0 : 1;
}
