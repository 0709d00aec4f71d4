// Backward: where gradients go, and what may not happen meanwhile.
// needs: precision: double
#include <seppo/autograd/core/leaf.h>
#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

using seppo::StateError;
using seppo::Tensor;

namespace {
const std::vector<double> kValues{1, 2, 3, 4};
Tensor leaf() { return seppo::variable({4}, kValues); }
}  // namespace

BOOST_AUTO_TEST_CASE(second_derivatives_are_refused) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = leaf(), y = t.create({4});
  seppo::record("twice", y, {x}, [=] { seppo::square(x); });
  BOOST_CHECK_EXCEPTION(t.backward(y, kValues), StateError, [](const StateError& e) {
    return std::string(e.what()).find("square: recorded during backward; second derivatives") != std::string::npos;
  });
  t.clear();
  const Tensor a = leaf(), b = t.create({4});
  seppo::record("again", b, {a}, [&] { seppo::tape().backward(b, kValues); });
  BOOST_CHECK_THROW(t.backward(b, kValues), StateError);
}

// Neither an op's backward nor an observer can take away what the walk goes over.
BOOST_AUTO_TEST_CASE(a_tape_is_not_cleared_during_backward) {
  struct Clears : seppo::Observer {
    void backward(const Tensor&) override { seppo::tape().clear(); }
  };
  const auto is_told = [](const StateError& e) {
    return std::string(e.what()) == "clear: called during backward, which needs the tape";
  };
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = leaf(), y = seppo::exp(x), z = t.create({4});
  seppo::record("clears", z, {y}, [] { seppo::tape().clear(); });
  BOOST_CHECK_EXCEPTION(t.backward(z, kValues), StateError, is_told);
  {
    Clears clears;
    const seppo::Observe scope(clears);
    BOOST_CHECK_EXCEPTION(t.backward(y, kValues), StateError, is_told);
  }
  const std::vector<double> before(x.grad().begin(), x.grad().end());
  t.backward(y, kValues);  // the graph is still there
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(x.grad()[i] - before[i], kValues[i] * y.values()[i]);
  t.clear();
  BOOST_CHECK_THROW(y.values(), StateError);
}

// A mark within an op's backward forgets its own tensors, but not the gradients that were begun meanwhile.
BOOST_AUTO_TEST_CASE(a_mark_within_backward_keeps_gradients) {
  constexpr int kSize = 100;  // so many that the gradient takes new memory
  seppo::tape().clear();
  const Tensor x = seppo::variable({kSize}, std::vector<double>(kSize, 1)), y = seppo::scale(x, 1);
  const Tensor z = seppo::tape().create({kSize});
  seppo::record("marks", z, {y}, [=] {
    const seppo::NoGrad no_grad;
    {
      const seppo::TapeMark mark;
      const Tensor zero = seppo::scale(z, 0);
      for (std::size_t i = 0; i < kSize; ++i) grad_of(y)[i] += 3 + zero.values()[i];
    }
    seppo::full({2 * kSize}, 77);  // takes what the mark gave back
  });
  std::fill_n(z.data(), kSize, 0.0);
  seppo::backward(seppo::sum(z));
  for (const double g : x.grad()) BOOST_CHECK_EQUAL(g, 3);
}

// After a throw in the middle, another backward over the same graph starts afresh.
BOOST_AUTO_TEST_CASE(gradients_under_way_are_dropped_when_backward_throws) {
  static bool fails = false;
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = leaf(), y = seppo::scale(x, 2), z = t.create({4});
  seppo::record("sometimes", z, {y}, [=] {
    for (std::size_t i = 0; i < 4; ++i) grad_of(y)[i] += grad_of(z)[i];
    if (fails) throw std::runtime_error("sometimes");
  });
  fails = true;
  BOOST_CHECK_THROW(t.backward(z, kValues), std::runtime_error);
  fails = false;
  t.backward(z, kValues);
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(x.grad()[i], 2 * kValues[i]);
}

// Leaves keep gradients added by ops that ran before the one that throws, and get none from later ones.
BOOST_AUTO_TEST_CASE(leaves_keep_what_reached_them_before_a_throw) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor early = leaf(), late = leaf(), y = t.create({4});
  seppo::record("throws", y, {early}, [] { throw std::runtime_error("backward"); });
  const Tensor z = seppo::scale(late, 3) * y;
  for (const double& v : kValues) y.data()[&v - kValues.data()] = v;
  BOOST_CHECK_THROW(t.backward(z, std::vector<double>(4, 1)), std::runtime_error);
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(late.grad()[i], 3 * kValues[i]);
  BOOST_CHECK_THROW(early.grad(), StateError);
}

BOOST_AUTO_TEST_CASE(gradients_go_to_the_same_place_of_another_block) {
  std::vector<double> values{1, 2, 3, 4}, home(5), target(5, 10), elsewhere(2);
  const std::string name = "v";
  seppo::Node& second = seppo::acquire_leaf({3}, values.data(), home.data() + 2, nullptr);
  seppo::Node& other = seppo::acquire_leaf({2}, values.data(), elsewhere.data(), &name);
  seppo::Node& none = seppo::acquire_leaf({0}, values.data(), elsewhere.data(), nullptr);
  const Tensor w(second), v(other), empty(none);
  {
    seppo::Tape own;
    const seppo::UseTape use(own);
    own.redirect_gradients(home, target.data());
    own.backward(seppo::sum(w * seppo::tensor({3}, {5.0, 6.0, 7.0})) + seppo::sum(empty));
    BOOST_CHECK((target == std::vector<double>{10, 10, 15, 16, 17}));
    // There is no place for those of others.
    const auto names_v = [](const StateError& e) { return std::string(e.what()).starts_with("gradient: [2] (v) is "); };
    BOOST_CHECK_EXCEPTION(own.backward(seppo::sum(v)), StateError, names_v);
    BOOST_CHECK_EXCEPTION(own.backward(seppo::sum(seppo::reshape(v, {1, 2}))), StateError, names_v);
    BOOST_CHECK((home == std::vector<double>(5)));
    BOOST_CHECK((elsewhere == std::vector<double>{0, 0}));
    other.requires_grad = false;
    own.backward(seppo::sum(v) + seppo::sum(w));
    other.requires_grad = true;
    BOOST_CHECK_EQUAL(target[2], 16);
  }
  seppo::backward(seppo::sum(w) + seppo::sum(v));
  BOOST_CHECK((home == std::vector<double>{0, 0, 1, 1, 1}));
  BOOST_CHECK((elsewhere == std::vector<double>{1, 1}));
  seppo::release_leaf(none);
  seppo::release_leaf(second);
  seppo::release_leaf(other);
}

BOOST_AUTO_TEST_CASE(a_loop_without_clear_is_told_in_the_end) {
  seppo::Tape& tape = seppo::tape();
  tape.clear();
  const Tensor x = seppo::variable({1}, {2.0});
  const Tensor y = seppo::exp(x);
  constexpr int kMost = 10'000;
  for (int i = 0; i < 2 * kMost; ++i) tape.backward(y);  // of the same graph, as often as one likes
  for (int i = 1; i < kMost - 1; ++i) tape.backward(seppo::exp(x));
  const Tensor last = seppo::exp(x);
  BOOST_CHECK_EXCEPTION(tape.backward(last), seppo::StateError, [](const seppo::StateError& error) {
    return std::string(error.what()).find("each step should call clear()") != std::string::npos;
  });
  tape.clear();
  for (int i = 0; i < 2 * kMost; ++i) {
    seppo::backward(seppo::exp(seppo::variable({1}, {2.0})));
    tape.clear();
  }
}
