// The README's code, compiled and run. test_house checks that the README shows exactly this.
#define BOOST_TEST_MODULE readme
#include <seppo/autograd/ops.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/layers/basic.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <iostream>

namespace {

using namespace seppo;

// [an op]
Tensor softsign(const Tensor& x) {
  Tensor y = tape().create(x.shape());
  for (std::size_t i = 0; i < x.numel(); ++i) y.data()[i] = x.data()[i] / (1 + std::abs(x.data()[i]));
  record("softsign", y, {x}, [=] {  // dx += dy / (1 + |x|)^2
    for (std::size_t i = 0; i < x.numel(); ++i)
      grad_of(x)[i] += grad_of(y)[i] / std::pow(1 + std::abs(x.data()[i]), real{2});
  });
  return y;
}
// [end]

// [a module]
struct GatedFeedForward {
  GatedFeedForward(const Scope& s, int d_model, int d_ff, double p)
      : up(s / "up", d_model, d_ff), gate(s / "gate", d_model, d_ff), down(s / "down", d_ff, d_model), drop(p) {}

  Tensor operator()(const Tensor& x) const {       // [rows, d_model]
    return down(drop(softsign(gate(x)) * up(x)));  // [rows, d_model]
  }

  Linear up, gate, down;  // "ffn.up.weight", "ffn.up.bias", ...
  Dropout drop;
};
// [end]

struct Data {
  Ragged src, tgt;
};

// Sequences that count up: BOS (15), two numbers, EOS (14).
Data successors() {
  Data data;
  for (int i = 0; i < 8; ++i) {
    data.src.add(std::vector<int>{i, i + 1, i + 2});
    data.tgt.add(std::vector<int>{15, i + 1, i + 2, 14});
  }
  return data;
}

}  // namespace

BOOST_AUTO_TEST_CASE(training_loop) {
  const Data data = successors();
  const Ragged &src = data.src, &tgt = data.tgt;
  // [a training loop]
  Parameters parameters(/*seed=*/1);
  const Transformer model(parameters.root(), {.src_vocabulary = 16,
                                              .tgt_vocabulary = 16,
                                              .layer = {.d_model = 32, .n_heads = 4, .d_ff = 64},
                                              .enc_layers = 1,
                                              .dec_layers = 1});
  Trainer trainer(parameters, {.lr = 3e-3, .schedule = ScheduleKind::cosine, .warmup_steps = 20, .steps = 300});
  Sampler sampler(src.size(), {.batch_size = 8});

  while (trainer.steps() < 300) {
    const StepResult now = trainer.step(sampler.next(), [&](std::span<const int> rows) {  // a part of the batch
      const Ragged target = tgt.pick(rows);                                               // BOS ... EOS
      const Tensor logits = model.logits(src.pick(rows), target.without_last());
      return classification_loss(logits, target.without_first().tokens);
    });
    if (now.step % 100 == 0) std::cout << now.step << ": " << now.loss << "\n";
  }
  // [end]
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  const Tensor logits = model.logits(src, tgt.without_last());
  BOOST_CHECK_LT(cross_entropy(logits, tgt.without_first().tokens).item(), 0.05);
}

BOOST_AUTO_TEST_CASE(gradient_check_of_an_op_and_a_model) {
  Parameters parameters(1);
  const Transformer model(parameters.root(), {.src_vocabulary = 16,
                                              .tgt_vocabulary = 16,
                                              .layer = {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0},
                                              .enc_layers = 1,
                                              .dec_layers = 1});
  const Data data = successors();
  const Ragged &src = data.src, tgt = data.tgt.without_last(), next = data.tgt.without_first();
  // [a gradient check]
  const auto op = gradient_check({{3, 4}}, [](std::span<const Tensor> x) { return softsign(x[0]); });
  const auto whole = gradient_check(parameters, [&] { return cross_entropy(model.logits(src, tgt), next.tokens); });
  if (!op.passed || !whole.passed) std::cout << op.text << whole.text;
  // [end]
  BOOST_CHECK_MESSAGE(op.passed && whole.passed, op.text << whole.text);
}

BOOST_AUTO_TEST_CASE(the_module) {
  Parameters parameters(1);
  const GatedFeedForward ffn(parameters.root() / "ffn", 4, 6, 0);
  const std::vector<real> x{1, 2, 3, 4, -1, -2, -3, -4};
  const auto report = gradient_check(parameters, [&] { return sum(ffn(tensor({2, 4}, x))); });
  BOOST_CHECK_MESSAGE(report.passed, report.text);
  BOOST_CHECK(parameters.find("ffn.up.weight") && parameters.find("ffn.up.bias"));
}
