// Parameters: names, storage, first values and limits; what must not be added or changed while their blocks are in use.
// needs: precision: double
#include "support/errors.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/parameters.h>
#include <seppo/nn/second_derivatives.h>
#include <seppo/nn/snapshot.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace seppo;
using test::check_error;
using test::contains;
using test::message;

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

BOOST_AUTO_TEST_CASE(parameters_are_flat_named_and_stable) {
  Parameters parameters(1);
  const Linear a(parameters.root() / "a", 3, 5);
  const real first = a.weight.values()[0];
  for (int i = 0; i < 50; ++i)
    static_cast<void>(Linear(parameters.root() / "more" / i, 20, 20));  // makes the block grow
  BOOST_CHECK_EQUAL(a.weight.values()[0], first);
  BOOST_CHECK_EQUAL(a.weight.data(), parameters.values().data() + parameters.find("a.weight")->offset);
  BOOST_CHECK_EQUAL(parameters.count(), 3 * 5 + 5 + 50 * (400 + 20));
  BOOST_CHECK(parameters.find("more.49.bias") && !parameters.find("more.50.bias"));
  BOOST_CHECK(parameters.find("a.weight")->decay && !parameters.find("a.bias")->decay);
  tape().clear();
  tape().backward(sum(a(full({2, 3}, 1))));
  BOOST_CHECK_EQUAL(parameters.gradients()[parameters.find("a.bias")->offset], 2);
  for (const int value : {1, 2}) {  // gradients are moved, too
    std::ranges::fill(parameters.gradients(), static_cast<real>(value));
    static_cast<void>(Linear(parameters.root() / "last" / value, 200, 200));
    BOOST_CHECK_EQUAL(parameters.gradients()[parameters.find("a.bias")->offset], value);
  }
  BOOST_CHECK_EQUAL(parameters.gradients()[parameters.find("last.2.bias")->offset], 0);
}

BOOST_AUTO_TEST_CASE(a_parameter_dies_with_its_parameters) {
  Tensor handle;
  {
    Parameters parameters(1);
    handle = parameters.root().parameter("p", {3}, init_normal(1));
    BOOST_CHECK_EQUAL(handle.numel(), 3);
  }
  BOOST_CHECK_THROW(handle.values(), StateError);
  BOOST_CHECK_THROW(square(handle), StateError);
}

// Modules continue with the new object; the old one is empty and may be reused.
BOOST_AUTO_TEST_CASE(parameters_can_be_moved) {
  static_assert(!std::is_copy_constructible_v<Parameters>);
  Parameters first(7);
  const Linear a(first.root() / "a", 3, 5);
  const Tensor one = first.root().constant({1}, init_ones());
  const std::vector<real> weight(a.weight.values().begin(), a.weight.values().end());
  Parameters second(std::move(first));
  BOOST_CHECK_EQUAL(second.seed(), 7u);
  BOOST_CHECK(first.entries().empty() && first.values().empty() && first.count() == 0);
  BOOST_CHECK_EQUAL(a.weight.data(), second.values().data());
  Parameters third(8);
  const Tensor old = third.root().parameter("old", {2}, init_normal(1));
  third = std::move(second);
  { const Parameters dies = std::move(second); }  // with the former content of `third`
  BOOST_CHECK_THROW(old.values(), StateError);
  static_cast<void>(Linear(third.root() / "more", 100, 100));  // makes the block grow
  BOOST_CHECK(std::equal(weight.begin(), weight.end(), a.weight.values().begin()));
  BOOST_CHECK_EQUAL(a.weight.describe(), "[5,3] (a.weight)");
  BOOST_CHECK_THROW(third.root().parameter("a.weight", {1}, init_normal(1)), ArgumentError);
  tape().clear();
  tape().backward(sum(a(full({2, 3}, 1)) * one));
  BOOST_CHECK_EQUAL(third.gradients()[third.find("a.bias")->offset], 2);
  const Linear again(first.root() / "a", 3, 5);  // `first` draws the same values again
  BOOST_CHECK(std::equal(weight.begin(), weight.end(), again.weight.values().begin()));
  std::vector<Parameters> several;
  for (std::uint64_t seed = 0; seed < 9; ++seed) {
    several.emplace_back(seed);
    several.back().root().parameter("p", {2}, init_normal(1));
  }
  for (const Parameters& p : several) BOOST_CHECK_EQUAL(p.count(), 2);
}

// For the sake of vector code that runs over them.
BOOST_AUTO_TEST_CASE(parameters_of_any_size_start_on_a_cache_line) {
  Parameters parameters(1);
  for (int size = 1; size <= 70; ++size)
    parameters.root().parameter("p" + std::to_string(size), {size}, init_normal(1));
  std::size_t end = 0;
  for (const auto& entry : parameters.entries()) {
    BOOST_CHECK_EQUAL(entry.offset * sizeof(real) % 64, 0);
    BOOST_CHECK(entry.offset >= end && entry.offset < end + 64 / sizeof(real));
    BOOST_CHECK_EQUAL(entry.tensor.data(), parameters.values().data() + entry.offset);
    end = entry.offset + entry.size();
  }
  BOOST_CHECK(parameters.values().size() >= end && parameters.values().size() * sizeof(real) % 64 == 0);
}

BOOST_AUTO_TEST_CASE(an_initialiser_that_throws_leaves_no_parameter) {
  Parameters parameters(1);
  const Init throws = [](std::span<real>, const Shape&, RandomStream&) { throw std::runtime_error("no values"); };
  BOOST_CHECK_THROW(parameters.root().parameter("w", {2, 3}, throws), std::runtime_error);
  BOOST_CHECK(parameters.entries().empty() && !parameters.find("w"));
  const Tensor w = parameters.root().parameter("w", {2, 3}, init_ones());
  BOOST_CHECK(w.values()[5] == 1 && parameters.count() == 6);
}

BOOST_AUTO_TEST_CASE(initial_values_depend_on_seed_and_name_only) {
  const auto values = [](std::uint64_t seed, bool other_first) {
    Parameters parameters(seed);
    if (other_first) static_cast<void>(Linear(parameters.root() / "other", 7, 7));
    const Linear l(parameters.root() / "l", 4, 4);
    return std::vector<real>(l.weight.values().begin(), l.weight.values().end());
  };
  BOOST_CHECK(values(1, false) == values(1, true));
  BOOST_CHECK(values(1, false) != values(2, false));
}

BOOST_AUTO_TEST_CASE(parameters_can_be_limited) {
  Parameters parameters(1, 100);
  parameters.root().parameter("a", {6, 10}, init_zeros());
  BOOST_CHECK_THROW(parameters.root().parameter("b", {1 << 20, 1 << 20}, init_zeros()), ModelSizeError);
  BOOST_CHECK_THROW(parameters.root().parameter("b", {37}, init_zeros()), ModelSizeError);
  BOOST_CHECK_THROW(parameters.root().buffer("b", {37}, init_zeros()), ModelSizeError);
  parameters.root().parameter("b", {36}, init_zeros());  // 4 values of padding follow the first
  BOOST_CHECK_EQUAL(parameters.count(), 96);
  const Shape large{1 << 23, 1};
  parameters.root().constant(large, init_zeros());  // a table may be larger than the parameters, within reason
  BOOST_CHECK_THROW(parameters.root().constant({1 << 20, 1 << 16}, init_zeros()), ModelSizeError);
  parameters.root().constant(large, init_zeros());
  BOOST_CHECK_THROW(parameters.root().constant({101}, init_zeros()), ModelSizeError);
}

BOOST_AUTO_TEST_CASE(initialisers_have_their_spread) {
  Parameters parameters(3);
  const auto deviation = [](const Tensor& t) {
    double squares = 0;
    for (const real v : t.values()) squares += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(squares / static_cast<double>(t.numel()));
  };
  const Scope s = parameters.root();
  const auto largest = [](const Tensor& t) {
    double most = 0;
    for (const real v : t.values()) most = std::max(most, std::abs(static_cast<double>(v)));
    return most;
  };
  const Tensor xavier = s.parameter("x", {100, 300}, init_xavier_uniform());
  BOOST_CHECK_CLOSE(deviation(xavier), std::sqrt(2.0 / 400), 2);
  BOOST_CHECK_LE(largest(xavier), std::sqrt(6.0 / 400));
  BOOST_CHECK_CLOSE(deviation(s.parameter("s", {300, 100}, init_xavier_uniform(1, 3))), std::sqrt(2.0 / 200), 2);
  BOOST_CHECK_CLOSE(deviation(s.parameter("n", {100, 300}, init_normal(0.5))), 0.5, 2);
  BOOST_CHECK_CLOSE(deviation(s.parameter("k", {100, 300}, init_kaiming_uniform())), std::sqrt(2.0 / 300), 2);
}

// An op that runs others before it is recorded: a change of any parameter that either used is an error.
// Runs are in order, do not touch each other, and have the elements of what is trained and of nothing else.
BOOST_AUTO_TEST_CASE(trained_runs_are_what_is_trained) {
  Parameters parameters(1);
  RandomStream random(1, Purpose::test);
  const auto check_runs = [&] {
    std::vector<int> expected(parameters.values().size(), -1), found(expected.size(), 0);  // -1: padding
    for (const auto& entry : parameters.entries())
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(entry.offset), entry.size(), entry.trained ? 1 : 0);
    std::size_t end = 0;
    for (const Parameters::Run& run : parameters.trained_runs()) {
      BOOST_REQUIRE(run.begin < run.end && run.end <= found.size() && (end == 0 || run.begin > end));
      end = run.end;
      std::fill(found.begin() + static_cast<std::ptrdiff_t>(run.begin),
                found.begin() + static_cast<std::ptrdiff_t>(end), 1);
    }
    for (std::size_t i = 0; i < found.size(); ++i) BOOST_REQUIRE(expected[i] == -1 || expected[i] == found[i]);
  };
  for (int i = 0; i < 40; ++i) {
    const int size = static_cast<int>(random.below(20));
    const std::string name = std::to_string(i);
    if (random.below(5) == 0)
      parameters.root().buffer(name, {size}, init_ones());
    else
      parameters.root().parameter(name, {size}, init_ones());
    check_runs();
  }
  for (int i = 0; i < 40; ++i) {
    const std::size_t changed = random.below(40);
    const Parameters::Entry& entry = parameters.entries()[changed];
    if (entry.is_buffer) continue;
    std::ranges::fill(parameters.gradients().subspan(entry.offset, entry.size()), real{7});
    parameters.freeze(entry.name, random.below(2) == 0);
    for (const real g : parameters.gradients().subspan(entry.offset, entry.size())) BOOST_REQUIRE_EQUAL(g, 0);
    check_runs();
  }
  const Parameters moved = std::move(parameters);
  BOOST_CHECK(!moved.trained_runs().empty() && parameters.trained_runs().empty());
}

BOOST_AUTO_TEST_CASE(changes_are_seen_whatever_the_order_of_records) {
  for (const int changed : {0, 1, 2}) {
    tape().clear();
    Parameters outer(1), inner(2);
    const Tensor a = outer.root().parameter("a", {3}, init_ones()), b = inner.root().parameter("b", {3}, init_ones());
    const Tensor y = tape().create({3}), z = square(b);
    for (std::size_t i = 0; i < 3; ++i) y.data()[i] = 2 * a.values()[i];
    record("twice", y, {a}, [=] {
      for (std::size_t i = 0; i < 3; ++i) grad_of(a)[i] += 2 * grad_of(y)[i];
    });
    const Tensor loss = sum(y) + sum(z);
    if (changed == 1) outer.changed();
    if (changed == 2) inner.changed();
    const std::string text = message([&] { tape().backward(loss); });
    BOOST_CHECK_MESSAGE(changed == 0
                            ? text == "no error"
                            : contains(text, changed == 1 ? "backward: a has changed" : "backward: b has changed"),
                        text);
  }
}
