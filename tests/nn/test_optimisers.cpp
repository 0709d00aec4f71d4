// Optimisers against their formulas in plain loops; groups, frozen parameters, and parameters that change between
// forward and backward.
// needs: precision: double
#include <seppo/autograd/ops.h>
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/modules/batch_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adagrad.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/ema.h>
#include <seppo/nn/optim/parameter_groups.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

using namespace seppo;

namespace {

using Values = std::vector<real>;

// Two modules of a matrix and a vector each, and a buffer.
struct Model {
  Parameters parameters{1};
  Linear a{parameters.root() / "a", 3, 5}, b{parameters.root() / "b", 5, 2};
  Tensor buffer = parameters.root().buffer("seen", {7}, init_ones());

  Tensor loss() const { return sum(square(b(tanh(a(tensor({2, 3}, {1, -2, 0.5, 0.3, 1, -1})))))); }
  Values values() const { return {parameters.values().begin(), parameters.values().end()}; }
  // Freezes the n-th parameter if bit n is set; with `thaws`, unfreezes the others.
  void freeze(std::uint64_t bits, bool thaws) {
    for (const char* name : {"a.weight", "a.bias", "b.weight", "b.bias"}) {
      if (thaws || bits % 2 == 1) parameters.freeze(name, bits % 2 == 1);
      bits /= 2;
    }
  }
  // Sets random gradients for trained parameters.
  void set_gradients(std::uint64_t seed) {
    RandomStream random(seed, Purpose::test);
    for (const auto& entry : parameters.entries())
      for (std::size_t i = 0; i < entry.size(); ++i) {
        const double g = random.normal();
        if (entry.trained) parameters.gradients()[entry.offset + i] = g;
      }
  }
};

void check_close(const Values& found, const Values& expected, const std::string& what) {
  for (std::size_t i = 0; i < found.size(); ++i)
    BOOST_CHECK_MESSAGE(std::abs(found[i] - expected[i]) <= 1e-14 * (1 + std::abs(expected[i])),
                        what << " [" << i << "]: " << found[i] << ", expected " << expected[i]);
}

const ParameterGroups kGroups{{.prefix = "b.", .lr = 0.5}, {.prefix = "b.bias", .lr = 2, .weight_decay = 0.3}};

// Compares steps, in which others are frozen before there are gradients and when there are, with formula(p, the number
// that the optimiser remembers of it, `state` at first, gradient, rate).
template <class T, class Formula>
void check_formula(Model& model, T& optimiser, double weight_decay, double state, const Formula& formula,
                   bool has_groups = true) {
  Values expected = model.values(), states(expected.size(), state);
  for (std::uint64_t step = 1; step <= 16; ++step) {
    model.freeze(step % 16, true);
    model.set_gradients(step);
    model.freeze(7 * step % 16 / 2, false);
    const double lr = 0.1 / static_cast<double>(step), scale = 0.25;
    for (const auto& entry : model.parameters.entries()) {
      if (!entry.trained) continue;
      const bool in_b = has_groups && entry.name[0] == 'b', is_last = has_groups && entry.name == "b.bias";
      const double rate = lr * (is_last ? 2 : in_b ? 0.5 : 1);
      const double decay = is_last ? 0.3 : entry.shape.rank() == 2 ? weight_decay : 0;
      for (std::size_t i = entry.offset; i < entry.offset + entry.size(); ++i)
        formula(expected[i], states[i], scale * model.parameters.gradients()[i] + decay * expected[i], rate);
    }
    optimiser.step(lr, scale);
    const OptimizerBlock own = optimiser.state()[0];
    check_close(model.values(), expected, "values");
    check_close({own.values.begin(), own.values.end()}, states, own.prefix);
    BOOST_CHECK(std::ranges::all_of(model.parameters.gradients(), [](real g) { return g == 0; }));
  }
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const StateError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(sgd_follows_its_formula) {
  for (const SgdConfig config : {SgdConfig{}, SgdConfig{.momentum = 0.9}, SgdConfig{.weight_decay = 0.1},
                                 SgdConfig{.momentum = 0.8, .nesterov = true, .weight_decay = 0.05}}) {
    const auto formula = [&](double& p, double& velocity, double g, double rate) {
      velocity = config.momentum * velocity + g;
      p -= rate * (config.nesterov ? g + config.momentum * velocity : velocity);
    };
    for (const bool has_groups : {true, false}) {
      Model model;
      Sgd sgd(model.parameters, config, has_groups ? kGroups : ParameterGroups{});
      check_formula(model, sgd, config.weight_decay, 0, formula, has_groups);
    }
  }
}

BOOST_AUTO_TEST_CASE(adagrad_follows_its_formula) {
  for (const AdagradConfig config :
       {AdagradConfig{}, AdagradConfig{.eps = 0.1, .initial = 0.3}, AdagradConfig{.weight_decay = 0.1}}) {
    Model model;
    Adagrad adagrad(model.parameters, config, kGroups);
    check_formula(model, adagrad, config.weight_decay, config.initial,
                  [&](double& p, double& squares, double g, double rate) {
                    squares += g * g;
                    p -= rate * g / (std::sqrt(squares) + config.eps);
                  });
  }
}

// The first step is lr times the sign of the gradient, however large; afterwards steps of any size are small.
BOOST_AUTO_TEST_CASE(adagrad_stays_finite) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {3}, init_zeros());
  Adagrad adagrad(parameters);
  const real most = std::numeric_limits<real>::max();
  for (int step = 0; step < 3; ++step) {
    std::ranges::copy(Values{most, -most, std::sqrt(most)}, parameters.gradients().begin());
    adagrad.step(0.5);
    for (const std::size_t i : {0u, 1u, 2u}) BOOST_CHECK_CLOSE(w.values()[i], (i == 1 ? 0.5 : -0.5) * (step + 1), 1e-9);
    for (const real sum : adagrad.squares()) BOOST_CHECK(std::isfinite(sum));
  }
}

BOOST_AUTO_TEST_CASE(adam_of_groups_equals_adams_of_their_own) {
  Model whole, slow, decaying;
  const AdamConfig config{.weight_decay = 0.1};
  Adam adam(whole.parameters, config,
            {{"", 3, 2.0}, {.prefix = "a.", .lr = 0.5}, {.prefix = "b.", .weight_decay = 0.4}});
  Adam adam_slow(slow.parameters, config), adam_decaying(decaying.parameters, {.weight_decay = 0.4});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    for (Model* model : {&whole, &slow, &decaying}) model->set_gradients(step);
    adam.step(0.01);
    adam_slow.step(0.005);
    adam_decaying.step(0.01);
  }
  for (const auto& entry : whole.parameters.entries()) {
    if (!entry.trained || entry.name == "b.bias") continue;  // b.bias decays only in its group
    const Tensor& same = (entry.name[0] == 'a' ? slow : decaying).parameters.find(entry.name)->tensor;
    check_close({entry.tensor.values().begin(), entry.tensor.values().end()},
                {same.values().begin(), same.values().end()}, entry.name);
  }
}

// Parameters beside a group in the flat block, trained in the same way, are not part of it.
BOOST_AUTO_TEST_CASE(a_group_between_others_stays_alone) {
  Model model;
  const Values before = model.values();
  Sgd sgd(model.parameters, {}, {{.prefix = "a.bias", .lr = 0.5, .weight_decay = 0}});
  std::ranges::fill(model.parameters.gradients(), 1);
  sgd.step(0.25);
  const Values after = model.values();
  for (const auto& entry : model.parameters.entries())
    for (std::size_t i = entry.offset; i < entry.offset + entry.size(); ++i)
      BOOST_CHECK_CLOSE(before[i] - after[i], entry.trained ? entry.name == "a.bias" ? 0.125 : 0.25 : 0, 1e-9);
}

// Against the weighted mean of all values so far; parameters that are not trained have no average.
BOOST_AUTO_TEST_CASE(ema_is_the_weighted_mean) {
  for (const auto& [decay, frozen] : {std::pair{0.0, 0u}, {0.5, 2u}, {0.99, 5u}}) {
    Model model;
    model.freeze(frozen, true);
    Ema ema(model.parameters, decay);
    std::vector<Values> history;
    for (std::uint64_t step = 1; step <= 6; ++step) {
      RandomStream random(11, Purpose::test, step);
      for (const auto& entry : model.parameters.entries())
        for (std::size_t i = 0; i < entry.size(); ++i) entry.tensor.data()[i] = random.normal();
      history.push_back(model.values());
      ema.update();
      Values mean(history[0].size());
      double weights = 0;
      for (std::size_t i = 0; i < history.size(); ++i) {
        const double weight = std::pow(decay, static_cast<double>(history.size() - 1 - i));
        for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += weight * history[i][j];
        weights += weight;
      }
      for (double& m : mean) m /= weights;
      for (const auto& entry : model.parameters.entries())
        if (!entry.trained) std::copy_n(&history.back()[entry.offset], entry.size(), &mean[entry.offset]);
      ema.swap();
      check_close(model.values(), mean, "averages");
      ema.swap();
      BOOST_CHECK(model.values() == history.back());
    }
    // Another object with its state continues in the same way.
    Ema other(model.parameters, decay);
    std::ranges::copy(ema.averages(), other.averages().begin());
    other.set_updates(ema.updates());
    ema.update(), other.update();
    BOOST_CHECK(std::ranges::equal(ema.averages(), other.averages()));
  }
  Model model;
  for (const double decay : {-0.1, 1.0, std::nan("")}) BOOST_CHECK_THROW(Ema(model.parameters, decay), ArgumentError);
}

// Other optimisers with the state of Adam and Sgd continue in the same way.
BOOST_AUTO_TEST_CASE(states_can_be_read_and_set) {
  const auto run = [](auto make, auto copy_state) {
    Model one, two;
    auto first = make(one.parameters);
    for (std::uint64_t step = 1; step <= 3; ++step) one.set_gradients(step), first.step(0.1);
    auto second = make(two.parameters);
    std::ranges::copy(one.values(), two.parameters.edit().begin());
    copy_state(first, second);
    for (std::uint64_t step = 4; step <= 6; ++step) {
      one.set_gradients(step), two.set_gradients(step);
      first.step(0.1), second.step(0.1);
    }
    BOOST_CHECK(one.values() == two.values());
  };
  run([](Parameters& p) { return Adam(p, {.weight_decay = 0.1}); },
      [](const Adam& from, Adam& to) {
        std::ranges::copy(from.first_moments(), to.first_moments().begin());
        std::ranges::copy(from.second_moments(), to.second_moments().begin());
        to.set_steps(from.steps());
      });
  run([](Parameters& p) { return Sgd(p, {.momentum = 0.9, .nesterov = true}); },
      [](const Sgd& from, Sgd& to) { std::ranges::copy(from.velocity(), to.velocity().begin()); });
  run([](Parameters& p) { return Adagrad(p); },
      [](const Adagrad& from, Adagrad& to) { std::ranges::copy(from.squares(), to.squares().begin()); });
}

BOOST_AUTO_TEST_CASE(groups_and_options_are_checked) {
  Model model;
  const auto refused = [&](const ParameterGroup& group) {
    BOOST_CHECK_THROW(Adam(model.parameters, {}, {group}), ArgumentError);
    BOOST_CHECK_THROW(Sgd(model.parameters, {}, {group}), ArgumentError);
    BOOST_CHECK_THROW(Adagrad(model.parameters, {}, {group}), ArgumentError);
    BOOST_CHECK_THROW(Trainer(model.parameters, {}, {group}), ArgumentError);
  };
  refused({.prefix = "c."});
  refused({.prefix = "seen"});  // a buffer
  refused({.prefix = "a.", .lr = -1});
  refused({.prefix = "a.", .lr = std::nan("")});
  refused({.prefix = "a.", .lr = std::numeric_limits<double>::infinity()});
  for (const double decay : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    refused({.prefix = "a.", .weight_decay = decay});
  for (const SgdConfig config :
       {SgdConfig{.momentum = 1}, SgdConfig{.momentum = -0.1}, SgdConfig{.momentum = std::nan("")},
        SgdConfig{.nesterov = true}, SgdConfig{.weight_decay = -1}, SgdConfig{.weight_decay = std::nan("")},
        SgdConfig{.weight_decay = std::numeric_limits<double>::infinity()}})
    BOOST_CHECK_THROW(Sgd(model.parameters, config), ArgumentError);
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    for (const AdagradConfig config :
         {AdagradConfig{.eps = bad}, AdagradConfig{.initial = bad}, AdagradConfig{.weight_decay = bad}})
      BOOST_CHECK_THROW(Adagrad(model.parameters, config), ArgumentError);
  BOOST_CHECK_THROW(Adagrad(model.parameters, {.eps = 0}), ArgumentError);
  Sgd sgd(model.parameters);
  Ema ema(model.parameters);
  static_cast<void>(Linear(model.parameters.root() / "late", 2, 2));
  BOOST_CHECK_THROW(sgd.step(0.1), StateError);
  BOOST_CHECK_THROW(ema.update(), StateError);
  BOOST_CHECK_THROW(ema.swap(), StateError);
}

// Backward computes no gradients of frozen parameters, and no optimiser moves or decays them; the others move as if
// these were constants. Once unfrozen, they are trained again.
BOOST_AUTO_TEST_CASE(frozen_parameters_stay) {
  Model model;
  tape().clear();
  tape().backward(model.loss());
  const Values all(model.parameters.gradients().begin(), model.parameters.gradients().end());
  const std::size_t count = model.parameters.count();
  model.parameters.freeze("a.");
  BOOST_CHECK_EQUAL(model.parameters.count(), count - 20);
  Adam adam(model.parameters, {.weight_decay = 0.5});
  Sgd sgd(model.parameters, {.momentum = 0.9, .weight_decay = 0.5});
  const Values before = model.values();
  const auto is_frozen = [&](std::size_t i) { return i < model.parameters.find("b.weight")->offset; };
  for (int step = 0; step < 3; ++step) {
    model.parameters.zero_gradients();
    tape().clear();
    tape().backward(model.loss());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (is_frozen(i))
        BOOST_CHECK_EQUAL(model.parameters.gradients()[i], 0);
      else if (step == 0)
        BOOST_CHECK_EQUAL(model.parameters.gradients()[i], all[i]);
    }
    step % 2 == 0 ? adam.step(0.1) : sgd.step(0.1);
  }
  const Values after = model.values();
  const auto& b = *model.parameters.find("b.weight");
  BOOST_CHECK(std::equal(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(b.offset), before.begin()));
  for (std::size_t i = b.offset; i < b.offset + b.size(); ++i) BOOST_CHECK_NE(after[i], before[i]);
  model.parameters.freeze("a.weight", false);
  BOOST_CHECK(model.a.weight.requires_grad() && !model.a.bias.requires_grad());
  tape().clear();
  tape().backward(model.loss());
  sgd.step(0.1);
  BOOST_CHECK_NE(model.values()[0], before[0]);
  model.parameters.freeze("", false);
  BOOST_CHECK(!model.parameters.find("seen")->trained && !model.buffer.requires_grad());  // buffers are never trained
  for (const char* none : {"c", "seen"}) BOOST_CHECK_THROW(model.parameters.freeze(none), ArgumentError);
}

// A typical GAN mistake: one network's loss is computed, the other network takes a step, and then backward runs.
BOOST_AUTO_TEST_CASE(parameters_that_change_before_backward_are_named) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("critic.w", {1}, init_ones());
  const Tensor x = parameters.root().parameter("x", {2, 1}, init_ones());
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "seppo_test_optimisers.safetensors";
  save_checkpoint(file, parameters, {});
  Adam adam(parameters);
  Sgd sgd(parameters);
  const std::vector<std::pair<std::string, std::function<void()>>> changes = {
      {"adam", [&] { adam.step(0.1); }},
      {"sgd", [&] { sgd.step(0.1); }},
      {"edit()", [&] { parameters.edit()[0] = 2; }},
      {"load", [&] { load_checkpoint(file, parameters); }},
      {"load_weights", [&] { load_weights(file, parameters); }}};
  const std::vector<std::pair<std::string, std::function<Tensor()>>> losses = {
      {"mul", [&] { return sum(w * x); }},
      {"slice", [&] { return sum(square(slice(x, 0, 1, 2))); }},
      {"checkpoint",
       [&] { return checkpoint({tensor({1}, {3})}, [&](std::span<const Tensor> in) { return sum(in[0] * w); }); }},
      {"where", [&] { return sum(where(w, variable({1}, {3}), 0)); }},  // the condition
      {"rotary",
       [&] {
         const std::vector<int> first{0};
         return sum(rotary(variable({1, 2}, {3, 4}), 1, reshape(x, {1, 2}), first));
       }},
      {"frozen", [&] {
         parameters.freeze("critic.");
         const Tensor y = sum(w * x);
         parameters.freeze("critic.", false);
         return y;
       }}};
  for (const auto& [change_name, change] : changes)
    for (const auto& [loss_name, loss] : losses) {
      tape().clear();
      const Tensor y = loss();
      tape().backward(y);  // nothing has changed yet
      change();
      const std::string message = message_of([&] { tape().backward(y); });
      BOOST_CHECK_MESSAGE(
          message.find(loss_name == "slice" || loss_name == "rotary" ? "x has changed" : "has changed") !=
              std::string::npos,
          change_name << ", " << loss_name << ": '" << message << "'");
      // Results computed since then, on the same tape, are right.
      parameters.zero_gradients();
      const Tensor fresh = sum(w * x);
      tape().backward(fresh);
      BOOST_CHECK_EQUAL(w.grad()[0], x.values()[0] + x.values()[1]);
    }
  std::filesystem::remove(file);
  // Neither reading values nor updating running statistics is a change.
  const BatchNorm norm(parameters.root() / "norm", 1);
  tape().clear();
  const Tensor y = sum(norm(x) * w);
  BOOST_CHECK_EQUAL(parameters.values()[0], w.values()[0]);
  BOOST_CHECK_NO_THROW(tape().backward(y));
}

// There are no averages yet: the model stays, instead of becoming zero.
BOOST_AUTO_TEST_CASE(averages_of_nothing_are_not_swapped_in) {
  Model model;
  const Values before = model.values();
  Ema ema(model.parameters, 0.9);
  ema.swap();
  BOOST_CHECK(model.values() == before);
  ema.swap();
  BOOST_CHECK(model.values() == before);
}

// 0 / (0 + epsilon) is 0, with the least epsilon too.
BOOST_AUTO_TEST_CASE(adam_leaves_alone_what_has_no_gradient) {
  for (const double eps : {1e-8, 1e-30}) {
    Model model;
    const Values before = model.values();
    Adam adam(model.parameters, {.eps = eps});
    for (int step = 0; step < 3; ++step) adam.step(0.1);
    BOOST_CHECK(model.values() == before);
  }
  Model model;
  BOOST_CHECK_THROW(Adam(model.parameters, {.eps = 0}), ArgumentError);
}
