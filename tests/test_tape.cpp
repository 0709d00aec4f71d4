// Lifetimes, modes, views and the reverse walk.
#define BOOST_TEST_MODULE tape
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <thread>
#include <vector>

using seppo::Mode;
using seppo::Shape;
using seppo::StateError;
using seppo::Tensor;

namespace {
const std::vector<double> kValues{1, 2, 3, 4};
Tensor leaf() { return seppo::variable({4}, kValues); }
}  // namespace

BOOST_AUTO_TEST_CASE(a_cleared_tensor_is_refused_everywhere) {
  seppo::Tape& t = seppo::tape();
  const Tensor x = leaf();
  const Tensor y = seppo::exp(x);
  t.clear();
  BOOST_CHECK_THROW(x.values(), StateError);
  BOOST_CHECK_THROW(y.shape(), StateError);
  BOOST_CHECK_THROW(seppo::exp(x), StateError);
  BOOST_CHECK_THROW(t.backward(y), StateError);
  const Tensor z = leaf();  // takes the same memory
  BOOST_CHECK_THROW(x.item(), StateError);
  BOOST_CHECK_EQUAL(z.values()[3], 4);
  BOOST_CHECK_THROW(Tensor().shape(), StateError);
}

BOOST_AUTO_TEST_CASE(a_destroyed_tape_leaves_stale_handles_not_dangling_ones) {
  Tensor x;
  {
    seppo::Tape other;
    const seppo::UseTape use(other);
    x = leaf();
  }
  BOOST_CHECK_THROW(x.values(), StateError);
  seppo::Tape reuses_the_nodes;
  const seppo::UseTape use(reuses_the_nodes);
  BOOST_CHECK_EQUAL(leaf().values()[0], 1);
  BOOST_CHECK_THROW(x.values(), StateError);
}

BOOST_AUTO_TEST_CASE(a_mark_forgets_what_was_made_after_it) {
  seppo::tape().clear();
  const Tensor before = leaf();
  Tensor inside;
  {
    const seppo::TapeMark mark;
    inside = seppo::exp(before);
  }
  BOOST_CHECK_EQUAL(before.values()[1], 2);
  BOOST_CHECK_THROW(inside.values(), StateError);
}

BOOST_AUTO_TEST_CASE(tapes_do_not_mix) {
  const Tensor mine = leaf();
  std::thread([&] {
    const Tensor theirs = leaf();
    BOOST_CHECK_THROW(seppo::add(mine, theirs), StateError);
    BOOST_CHECK_THROW(seppo::reshape(mine, {2, 2}), StateError);
  }).join();
}

BOOST_AUTO_TEST_CASE(eval_mode_records_nothing) {
  seppo::tape().clear();
  const Tensor x = leaf();
  const seppo::UseMode eval(Mode::eval);
  const Tensor y = seppo::tanh(seppo::reshape(x, {2, 2}));
  BOOST_CHECK(!y.requires_grad());
  BOOST_CHECK_THROW(seppo::tape().backward(y, kValues), StateError);
  const Tensor same = seppo::dropout(x, 0.9);
  BOOST_CHECK(std::equal(kValues.begin(), kValues.end(), same.values().begin()));
}

BOOST_AUTO_TEST_CASE(gradients_of_intermediates_are_kept_on_request) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = leaf(), y = seppo::scale(x, 3), z = seppo::scale(y, 2), unused = leaf();
  y.retain_grad();
  t.backward(z, kValues);
  BOOST_CHECK_EQUAL(y.gradient()[2], 6);
  BOOST_CHECK_EQUAL(x.gradient()[2], 18);
  BOOST_CHECK_THROW(z.gradient(), StateError);
  BOOST_CHECK_EQUAL(unused.gradient()[0], 0);
  BOOST_CHECK_THROW(seppo::tensor({1}, {1.0}).gradient(), StateError);
}

BOOST_AUTO_TEST_CASE(backward_checks_what_it_is_given) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = leaf();
  BOOST_CHECK_THROW(t.backward(seppo::exp(x)), seppo::ShapeError);
  BOOST_CHECK_THROW(t.backward(seppo::exp(x), std::vector<double>{1}), seppo::ShapeError);
  BOOST_CHECK_THROW(t.backward(seppo::zeros({})), StateError);
}

// An op that throws leaves the tape usable, forward and backward.
BOOST_AUTO_TEST_CASE(the_engine_survives_exceptions) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = leaf();
  const Tensor y = t.create({4});
  seppo::record("throws", y, {x}, [] { throw std::runtime_error("backward"); });
  BOOST_CHECK_THROW(t.backward(y, kValues), std::runtime_error);
  BOOST_CHECK_THROW(seppo::matmul(x, x), seppo::ShapeError);
  t.clear();
  const Tensor again = leaf();
  t.backward(seppo::scale(again, 2), kValues);
  BOOST_CHECK_EQUAL(again.gradient()[3], 8);
}

BOOST_AUTO_TEST_CASE(a_million_nodes_on_a_small_stack) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  pthread_t thread;
  static double gradient = 0;
  const auto body = [](void*) -> void* {
    seppo::Tape own;
    const seppo::UseTape use(own);
    const Tensor x = seppo::variable({1}, std::vector<double>{1});
    Tensor y = x;
    for (int i = 0; i < 1'000'000; ++i) y = seppo::add(y, x);
    own.backward(y);
    gradient = x.gradient()[0];
    return nullptr;
  };
  BOOST_REQUIRE_EQUAL(pthread_create(&thread, &small, body, nullptr), 0);
  pthread_join(thread, nullptr);
  BOOST_CHECK_EQUAL(gradient, 1'000'001);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifndef __SANITIZE_ADDRESS__
  BOOST_CHECK_LT(usage.ru_maxrss, 400 << 10);  // kB
#endif
}

// Records of a user's own op follow the same rules.
BOOST_AUTO_TEST_CASE(an_op_of_ones_own) {
  const auto square = [](const Tensor& x) {
    Tensor y = seppo::tape().create(x.shape());
    for (std::size_t i = 0; i < x.size(); ++i) y.data()[i] = x.data()[i] * x.data()[i];
    seppo::record("square", y, {x}, [=] {
      for (std::size_t i = 0; i < x.size(); ++i) x.grad()[i] += 2 * x.data()[i] * y.grad()[i];
    });
    return y;
  };
  seppo::tape().clear();
  const Tensor x = leaf();
  seppo::tape().backward(square(x), kValues);
  BOOST_CHECK_EQUAL(x.gradient()[3], 32);
}
