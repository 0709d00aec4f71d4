// Parameters: what must not be added while their blocks are in use.
// needs: precision: double
#define BOOST_TEST_MODULE parameters
#include "support/errors.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/parameters.h>
#include <seppo/nn/second_derivatives.h>
#include <seppo/nn/snapshot.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using namespace seppo;
using test::check_error;

namespace {

// Ways to add something to the Parameters, and what a message calls it.
const std::map<std::string, std::function<void(const Scope&)>> kAdditions{
    {"late", [](const Scope& s) { s.parameter("late", {1 << 20}, init_zeros()); }},
    {"statistics", [](const Scope& s) { s.buffer("statistics", {3}, init_zeros()); }},
    {"a constant", [](const Scope& s) { s.constant({3}, init_zeros()); }}};

// Makes a parameter and a constant whose initialisers draw from others as they like.
const std::vector<std::function<void(const Scope&, const Init&)>> kMakers{
    [](const Scope& s, const Init& init) { s.parameter("first", {5}, init); },
    [](const Scope& s, const Init& init) { s.buffer("first", {5}, init); },
    [](const Scope& s, const Init& init) { s.constant({5}, init); }};

}  // namespace

// The initialiser's span would refer to a block that has moved.
BOOST_AUTO_TEST_CASE(an_initialiser_adds_nothing) {
  for (const auto& make : kMakers)
    for (const auto& [name, add] : kAdditions) {
      Parameters parameters(1);
      const Tensor before = parameters.root().parameter("before", {2}, init_constant(3));
      const std::size_t size = parameters.values().size();
      const Init adds = [&, &add = add](std::span<real> values, const Shape&, RandomStream&) {
        std::ranges::fill(values, real{9});
        add(parameters.root());
      };
      check_error<StateError>([&] { make(parameters.root(), adds); },
                              {"parameters: " + name + " cannot be added while an initialiser writes to them"});
      // As if it had not been tried; and it can be tried again.
      BOOST_CHECK_EQUAL(parameters.values().size(), size);
      BOOST_CHECK_EQUAL(parameters.entries().size(), 1U);
      BOOST_CHECK_EQUAL(before.at(1), 3);
      add(parameters.root());
      make(parameters.root(), init_constant(4));
      const Tensor last = parameters.root().parameter("last", {1}, init_zeros());
      BOOST_CHECK_EQUAL(last.at(0), 0);
    }
}

// The block beyond its last parameter stays zero, so that sums and digests of it are those of the parameters.
BOOST_AUTO_TEST_CASE(a_failed_initialiser_leaves_nothing_behind) {
  Parameters parameters(1), untried(1);
  const auto fails = [](std::span<real> values, const Shape&, RandomStream&) {
    std::ranges::fill(values, real{9});
    throw std::runtime_error("initialiser");
  };
  for (const auto& make : kMakers) BOOST_CHECK_THROW(make(parameters.root(), fails), std::runtime_error);
  for (Parameters* p : {&parameters, &untried}) p->root().parameter("small", {1}, init_normal(1));
  const Parameters &tried = parameters, &expected = untried;
  BOOST_CHECK_EQUAL_COLLECTIONS(tried.values().begin(), tried.values().end(), expected.values().begin(),
                                expected.values().end());
  const Tensor a = parameters.root().constant({4}, init_normal(1)), b = untried.root().constant({4}, init_normal(1));
  BOOST_CHECK(std::ranges::equal(a.values(), b.values()));
}

// Initialisers may read what is there, and make tensors and other Parameters.
BOOST_AUTO_TEST_CASE(an_initialiser_may_read) {
  Parameters parameters(1);
  const Tensor first = parameters.root().parameter("first", {2}, init_constant(3));
  const Init twice = [&](std::span<real> values, const Shape&, RandomStream&) {
    Parameters others(2);
    const Tensor two = others.root().parameter("two", {2}, init_constant(2));
    std::ranges::copy((first * two).values(), values.begin());
  };
  const Tensor second = parameters.root().parameter("second", {2}, twice);
  BOOST_CHECK_EQUAL(second.at(1), 6);
}

// A layer that is made when the loss is first called comes too late for the step's gradients.
// As for a model whose values come from a file; a layer added later, such as an adapter, is drawn as always.
BOOST_AUTO_TEST_CASE(values_that_will_be_loaded_are_not_drawn) {
  int draws = 0;
  const Init counted = [&](std::span<real> values, const Shape& shape, RandomStream& random) {
    ++draws;
    init_normal(1)(values, shape, random);
  };
  Parameters loaded(3), drawn(3);
  Tensor zero;
  {
    const Parameters::Undrawn guard(loaded);
    zero = loaded.root().parameter("w", {3, 2}, counted);
    loaded.root().buffer("b", {2}, counted);
    BOOST_CHECK_EQUAL(draws, 0);
    BOOST_CHECK_NE(loaded.root().constant({2}, init_ones()).at(1), 0);
  }
  for (const real value : zero.values()) BOOST_CHECK_EQUAL(value, 0);
  drawn.root().parameter("w", {3, 2}, init_normal(1));
  const Tensor later = loaded.root().parameter("adapter", {2, 2}, counted),
               expected = drawn.root().parameter("adapter", {2, 2}, init_normal(1));
  BOOST_CHECK_EQUAL(draws, 1);
  BOOST_CHECK(std::ranges::equal(later.values(), expected.values()));
}

BOOST_AUTO_TEST_CASE(a_training_step_adds_nothing) {
  const std::vector<int> rows{0, 1, 2, 3, 4, 5};
  for (const int shards : {1, 3})
    for (const auto& [name, add] : kAdditions) {
      Parameters parameters(1);
      const Tensor w = parameters.root().parameter("w", {2}, init_ones());
      Trainer trainer(parameters, {.shards = shards});
      const auto loss = [&](std::span<const int>) { return ShardLoss{sum(square(w)), 1}; };
      check_error<StateError>(
          [&, &add = add] {
            trainer.step(rows, [&](std::span<const int> some) {
              add(parameters.root());
              return loss(some);
            });
          },
          {"parameters: " + name + " cannot be added during a training step: make it before"});
      BOOST_CHECK_EQUAL(trainer.step(rows, loss).loss, 2);
      add(parameters.root());  // afterwards it can
    }
}

BOOST_AUTO_TEST_CASE(a_check_of_gradients_adds_nothing) {
  for (const auto& [name, add] : kAdditions) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {2}, init_ones());
    const auto loss = [&, &add = add](double = 0) {
      add(parameters.root());
      return sum(square(w));
    };
    const std::string text = "parameters: " + name + " cannot be added during a gradient check";
    check_error<StateError>([&] { gradient_check(parameters, loss); }, {text});
    check_error<StateError>([&] { differentiate_gradient(parameters, loss, 0.1); }, {text});
    add(parameters.root());
  }
}

// It clears the tape, which backward needs, and restores what it has not yet changed then.
BOOST_AUTO_TEST_CASE(gradients_are_not_checked_during_backward) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {1}, init_ones()), y = tape().create({});
  record("checks", y, {w}, [&] {
    differentiate_gradient(
        parameters, [&](double) { return sum(w); }, 0.1);
  });
  BOOST_CHECK_THROW(backward(y), StateError);
  BOOST_CHECK_EQUAL(w.at(0), 1);
}

BOOST_AUTO_TEST_CASE(a_snapshot_restores_everything) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {2}, init_ones());
  const Init fives = [](std::span<real> to, const Shape&, RandomStream&) { std::ranges::fill(to, real{5}); };
  const Tensor seen = parameters.root().buffer("seen", {1}, fives);
  parameters.gradients()[1] = 7;
  tape().random = {1, 2, 3, 4};
  {
    Snapshot state(parameters, "during a test");
    for (int repeat = 0; repeat < 2; ++repeat) {
      const std::span<real> values = state.restore();
      BOOST_CHECK_EQUAL(values[0] + values[1], 2);
      BOOST_CHECK_EQUAL(seen.at(0), 5);
      BOOST_CHECK_EQUAL(parameters.gradients()[1], 0);
      BOOST_CHECK_EQUAL(tape().random.step, 2);
      std::ranges::fill(values, real{9});
      parameters.gradients()[0] = 8;
      tape().random.step = 6;
    }
    check_error<StateError>([&] { parameters.root().parameter("b", {1}, init_ones()); }, {"during a test"});
  }
  BOOST_CHECK_EQUAL(w.at(0), 1);
  BOOST_CHECK_EQUAL(seen.at(0), 5);
  BOOST_CHECK_EQUAL(parameters.gradients()[0], 0);
  BOOST_CHECK_EQUAL(parameters.gradients()[1], 7);
  BOOST_CHECK_EQUAL(tape().random.step, 2);
}
