// Activation checkpointing: the same values and gradients, in less memory.
// needs: precision: double
#include <seppo/autograd/core/leaf.h>
#include <seppo/autograd/ops.h>
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/models/transformer.h>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace seppo;

namespace {

const std::vector<int> kRows{0, 7, 16};

struct Stack {
  explicit Stack(Parameters& parameters) {
    for (int i = 0; i < 4; ++i)
      layers.emplace_back(
          parameters.root() / i,
          LayerConfig{.d_model = 16, .n_heads = 2, .d_ff = 64, .dropout = 0.3, .attention_dropout = 0.2});
  }
  Tensor operator()(Tensor x, bool is_checkpointed) const {
    for (const EncoderLayer& layer : layers)
      x = is_checkpointed ? checkpoint({x}, [&layer](std::span<const Tensor> in) { return layer(in[0], kRows); })
                          : layer(x, kRows);
    return x;
  }
  std::vector<EncoderLayer> layers;
};

struct Result {
  std::vector<double> output, input_gradient, parameter_gradients;
  std::size_t memory;
  bool operator==(const Result& other) const {
    return output == other.output && input_gradient == other.input_gradient &&
           parameter_gradients == other.parameter_gradients;
  }
};

Result run(bool is_checkpointed, bool input_wants_gradient) {
  Parameters parameters(3);
  const Stack stack(parameters);
  Tape own;
  const UseTape use(own);
  own.random = {.seed = 5, .step = 7};
  std::vector<double> values;
  RandomStream random(1, Purpose::test);
  for (int i = 0; i < 16 * 16; ++i) values.push_back(random.normal());
  const Tensor x = input_wants_gradient ? variable({16, 16}, values) : tensor({16, 16}, values);
  const Tensor y = stack(x, is_checkpointed);
  std::reverse(values.begin(), values.end());
  own.backward(y, values);
  Result result;
  result.output.assign(y.values().begin(), y.values().end());
  if (input_wants_gradient) result.input_gradient.assign(x.grad().begin(), x.grad().end());
  result.parameter_gradients.assign(parameters.gradients().begin(), parameters.gradients().end());
  result.memory = own.capacity();
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_to_the_bit_with_dropout) {
  for (const bool input_wants_gradient : {true, false}) {
    const Result plain = run(false, input_wants_gradient), again = run(true, input_wants_gradient);
    BOOST_CHECK(plain == again);
    BOOST_CHECK_LT(again.memory, plain.memory);
    BOOST_CHECK(std::any_of(plain.parameter_gradients.begin(), plain.parameter_gradients.end(),
                            [](double g) { return g != 0; }));
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_nest) {
  const auto gradient = [](bool nested) {
    tape().clear();
    const Tensor x = variable({3}, {0.1, 0.2, 0.3});
    const Tensor y = nested ? checkpoint({x},
                                         [](std::span<const Tensor> outer) {
                                           return exp(checkpoint({outer[0]}, [](std::span<const Tensor> inner) {
                                             return seppo::tanh(inner[0] * inner[0]);
                                           }));
                                         })
                            : exp(seppo::tanh(x * x));
    tape().backward(y * x, std::vector<double>{1, 2, 3});
    return std::vector<double>(x.grad().begin(), x.grad().end());
  };
  const auto nested = gradient(true), plain = gradient(false);  // summed in another order
  for (std::size_t i = 0; i < 3; ++i) BOOST_CHECK_CLOSE(nested[i], plain[i], 1e-12);
}

BOOST_AUTO_TEST_CASE(an_input_used_twice_gets_both_gradients) {
  tape().clear();
  const Tensor x = variable({2}, {3, 4});
  const Tensor y = checkpoint({x, x}, [](std::span<const Tensor> in) { return in[0] * in[1]; });
  tape().backward(y, std::vector<double>{1, 10});
  BOOST_CHECK(x.grad()[0] == 6 && x.grad()[1] == 80);
}

BOOST_AUTO_TEST_CASE(tensors_of_the_tape_must_be_inputs) {
  tape().clear();
  const Tensor x = variable({2}, {3, 4}), other = exp(x);
  BOOST_CHECK_THROW(checkpoint({x}, [=](std::span<const Tensor> in) { return in[0] * other; }), StateError);
  // The tape remains usable.
  const Tensor y = checkpoint({x}, [](std::span<const Tensor> in) { return scale(in[0], 2); });
  tape().backward(y, std::vector<double>{1, 1});
  BOOST_CHECK_EQUAL(x.grad()[1], 2);
}

// Backward recomputes the part as it was recorded, dropout included, whatever the mode is by then.
BOOST_AUTO_TEST_CASE(backward_does_not_depend_on_the_mode_it_is_called_in) {
  const auto gradient = [](Mode mode, bool recording) {
    tape().clear();
    tape().random = {.seed = 1, .step = 2};
    const Tensor x = variable({64}, std::vector<double>(64, 1.0));
    const Tensor y = checkpoint({x}, [](std::span<const Tensor> in) { return exp(dropout(in[0], 0.5)); });
    const UseMode scope(mode);
    tape().recording = recording;
    tape().backward(y, std::vector<double>(64, 1.0));
    tape().recording = true;
    return std::vector<double>(x.grad().begin(), x.grad().end());
  };
  const auto expected = gradient(Mode::train, true);
  BOOST_CHECK(std::count(expected.begin(), expected.end(), 0.0) > 16);
  BOOST_CHECK(gradient(Mode::eval, true) == expected);
  BOOST_CHECK(gradient(Mode::train, false) == expected);
}

BOOST_AUTO_TEST_CASE(nothing_is_recorded_without_a_gradient) {
  tape().clear();
  const auto f = [](std::span<const Tensor> in) { return exp(in[0]); };
  BOOST_CHECK(!checkpoint({tensor({1}, {1})}, f).requires_grad());
  const Tensor x = variable({1}, {1});
  const auto identity = [](std::span<const Tensor> in) { return dropout(in[0], 0); };
  BOOST_CHECK(checkpoint({x}, identity).requires_grad());
  const NoGrad no_grad;
  BOOST_CHECK(!checkpoint({x}, f).requires_grad());
  BOOST_CHECK(!checkpoint({x}, identity).requires_grad());
}

// Backward would compute with the new values.
BOOST_AUTO_TEST_CASE(a_frozen_input_that_has_changed_is_named) {
  Parameters parameters(0);
  const Tensor frozen = parameters.root().parameter("frozen", {1}, init_ones()),
               w = parameters.root().parameter("w", {1}, init_ones());
  parameters.freeze("frozen");
  for (const bool is_view : {false, true}) {
    tape().clear();
    const auto f = [w](std::span<const Tensor> in) { return in[0] * w; };
    const Tensor y = checkpoint({is_view ? reshape(frozen, {1, 1}) : frozen}, f);
    backward(y);
    mark_changed(frozen.node());
    BOOST_CHECK_EXCEPTION(backward(y), StateError, [](const StateError& e) {
      return std::string(e.what()).find("frozen has changed since checkpoint") != std::string::npos;
    });
  }
}

// Side effects of f: although backward recomputes it, a step updates running statistics only once.
BOOST_AUTO_TEST_CASE(running_statistics_move_once) {
  const auto moved = [](int depth) {
    tape().clear();
    const Tensor mean = tensor({1}, {0}), var = tensor({1}, {1}), x = variable({2, 1}, {4, 8});
    const auto norm = [=](std::span<const Tensor> in) {
      return batch_norm(in[0], ones({1}), zeros({1}), mean, var, {.momentum = 0.5});
    };
    const auto part = [=](std::span<const Tensor> in) { return checkpoint({in[0]}, norm); };
    const Tensor inputs[] = {x};
    const Tensor y = depth == 0 ? norm(inputs) : depth == 1 ? part(inputs) : checkpoint({x}, part);
    tape().backward(y, std::vector<double>{1, 2});
    checkpoint({x}, norm);  // an update of its own
    return std::vector<double>{mean.item(), var.item(), x.grad()[0]};
  };
  const auto plain = moved(0);
  BOOST_CHECK_EQUAL(plain[0], 4.5);
  BOOST_CHECK(moved(1) == plain);
  BOOST_CHECK(moved(2) == plain);
}

// The intermediates of all parts occupy the same memory, in the forward pass and again in backward.
BOOST_AUTO_TEST_CASE(all_parts_use_the_same_memory_in_turn) {
  tape().clear();
  std::vector<const real*> places;
  places.reserve(8);
  std::vector<const real*>* const seen = &places;
  Tensor x = variable({100}, std::vector<double>(100, 0.5));
  const std::size_t used = tape().used();
  for (int part = 0; part < 4; ++part)
    x = checkpoint({x}, [seen](std::span<const Tensor> in) {
      Tensor y = exp(in[0]);
      seen->push_back(y.data());
      for (int i = 0; i < 50; ++i) y = seppo::tanh(y);
      return y;
    });
  BOOST_CHECK_LT(tape().used() - used, 4 * 5 * 100 * sizeof(real));  // keeps no part's intermediates
  tape().backward(x, std::vector<double>(100, 1));
  BOOST_CHECK_EQUAL(places.size(), 8);
  for (const real* place : places) BOOST_CHECK_EQUAL(place, places[0]);
}
