// Lifetimes, modes, views and the reverse walk.
// needs: precision: double
#include <seppo/autograd/core/leaf.h>
#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/init.h>
#include <seppo/nn/parameters.h>

#include "support/memcheck.h"
#include "support/op_check.h"

#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <thread>
#include <type_traits>
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
  const Tensor z = leaf();  // reuses the same memory
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
  // But gradients that older tensors received meanwhile are kept.
  const Tensor older = seppo::scale(before, 3).retain_grad();
  {
    const seppo::TapeMark mark;
    seppo::tape().backward(seppo::square(older), kValues);
  }
  seppo::full({1000}, 7);  // reuses the memory
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_CHECK_EQUAL(older.grad()[i], 2 * 3 * kValues[i] * kValues[i]);
    BOOST_CHECK_EQUAL(before.grad()[i], 3 * older.grad()[i]);
  }
}

BOOST_AUTO_TEST_CASE(tapes_do_not_mix) {
  const Tensor mine = leaf();
  std::thread([&] {
    const Tensor theirs = leaf();
    BOOST_CHECK_EXCEPTION(seppo::add(mine, theirs), StateError, [](const StateError& e) {
      return std::string(e.what()) ==
             "add: tensor [4] belongs to another tape or thread: make it where it is used, such as inside the loss, or "
             "with Scope::constant; pass it to checkpoint() as an input";
    });
    BOOST_CHECK_THROW(seppo::reshape(mine, {2, 2}), StateError);
    BOOST_CHECK_THROW(seppo::where(mine, theirs, 0), StateError);
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
  BOOST_CHECK_EQUAL(y.grad()[2], 6);
  BOOST_CHECK_EQUAL(x.grad()[2], 18);
  BOOST_CHECK_THROW(z.grad(), StateError);
  BOOST_CHECK_THROW(seppo::tensor({1}, {1.0}).grad(), StateError);
  // Not reached by backward: no zeros that could pass for a gradient.
  BOOST_CHECK_THROW(unused.grad(), StateError);
  BOOST_CHECK_THROW(seppo::reshape(unused, {2, 2}).grad(), StateError);
  const Tensor aside = seppo::exp(x);
  BOOST_CHECK_THROW(aside.retain_grad().grad(), StateError);
  // Asking does not create one.
  BOOST_CHECK_THROW(unused.grad(), StateError);
}

BOOST_AUTO_TEST_CASE(gradients_of_persistent_leaves_always_exist) {
  std::vector<double> values{1, 2}, gradients{0, 0};
  seppo::Node& node = seppo::acquire_leaf({2}, values.data(), gradients.data(), nullptr);
  const Tensor w(node);
  BOOST_CHECK_EQUAL(w.grad()[0], 0);
  seppo::tape().clear();
  seppo::backward(seppo::sum(seppo::square(w)));
  BOOST_CHECK(w.grad().data() == gradients.data() && w.grad()[1] == 4);
  seppo::tape().clear();
  BOOST_CHECK_EQUAL(w.grad()[1], 4);
  seppo::release_leaf(node);
  BOOST_CHECK_THROW(w.grad(), StateError);
  seppo::Parameters parameters(1);
  const Tensor p = parameters.root().parameter("p", {2}, seppo::init_ones());
  BOOST_CHECK(p.grad()[0] == 0 && p.grad()[1] == 0);
  parameters.freeze("p");
  BOOST_CHECK_THROW(p.grad(), StateError);
}

BOOST_AUTO_TEST_CASE(inference_evaluates_and_forgets) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = leaf();
  const std::size_t nodes = t.size(), used = t.used();
  Tensor y;
  {
    const seppo::Inference inference;
    y = seppo::dropout(seppo::exp(x), 0.5);
    BOOST_CHECK(!y.requires_grad() && y.values()[0] > 2.7);
  }
  BOOST_CHECK_THROW(y.values(), StateError);
  BOOST_CHECK(t.mode == Mode::train && t.size() == nodes && t.used() == used);
  BOOST_CHECK(seppo::exp(x).requires_grad());
}

// What a part of a network makes meanwhile is forgotten, unless backward or an observer needs it.
BOOST_AUTO_TEST_CASE(the_result_of_a_part_is_kept) {
  seppo::Tape& t = seppo::tape();
  const auto part = [](const Tensor& x) { return seppo::exp(seppo::exp(seppo::exp(x))); };
  const auto made = [&](const Tensor& x) {  // how many tensors
    const std::size_t before = t.size();
    const Tensor y = seppo::result_of(x.shape(), [&] { return part(x); });
    const std::size_t count = t.size() - before;
    const std::vector<double> kept(y.values().begin(), y.values().end());
    BOOST_CHECK(std::ranges::equal(kept, part(x).values()));
    return count;
  };
  t.clear();
  {
    const seppo::UseMode eval(Mode::eval);
    BOOST_CHECK_EQUAL(made(leaf()), 1u);
    seppo::Observer looking;
    const seppo::Observe scope(looking);
    BOOST_CHECK_EQUAL(made(leaf()), 3u);
  }
  {
    const seppo::NoGrad guard;
    BOOST_CHECK_EQUAL(made(leaf()), 1u);
  }
  BOOST_CHECK_EQUAL(made(leaf()), 3u);
  const Tensor x = leaf();
  BOOST_CHECK(seppo::result_of(x.shape(), [&] { return part(x); }).requires_grad());
  const seppo::UseMode eval(Mode::eval);
  BOOST_CHECK_THROW(seppo::result_of({2}, [&] { return part(x); }), seppo::ShapeError);
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
  BOOST_CHECK_THROW(seppo::matmul(x, seppo::ones({3, 2})), seppo::ShapeError);
  t.clear();
  const Tensor again = leaf();
  t.backward(seppo::scale(again, 2), kValues);
  BOOST_CHECK_EQUAL(again.grad()[3], 8);
}

namespace {

[[maybe_unused]] std::size_t peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) >> 10;
}

}  // namespace

// ctest also runs this case and the next with a stack of 64 KiB,
// each in a process of its own (tape_small_stack).
BOOST_AUTO_TEST_CASE(a_million_nodes_chain) {
  seppo::Tape own;
  const seppo::UseTape use(own);
  const Tensor x = seppo::variable({1}, {1});
  Tensor chain = x;
  for (int i = 0; i < 1'000'000; ++i) chain = seppo::add(chain, x);
  own.backward(chain);
  BOOST_CHECK_EQUAL(x.grad()[0], 1'000'001);
  if (!test::takes_memory_itself()) BOOST_CHECK_LT(peak_rss_mb(), 400);
}

BOOST_AUTO_TEST_CASE(a_million_nodes_diamonds) {  // each node is used twice, so gradients double
  seppo::Tape own;
  const seppo::UseTape use(own);
  const Tensor z = seppo::variable({1}, {1});
  Tensor diamond = z;
  for (int i = 0; i < 1'000'000; ++i) diamond = seppo::scale(seppo::add(diamond, diamond), 0.5);
  own.backward(diamond);
  BOOST_CHECK_EQUAL(z.grad()[0], 1);
  if (!test::takes_memory_itself()) BOOST_CHECK_LT(peak_rss_mb(), 800);  // for two million nodes
}

// The retained gradient is that of the value itself, even where an op modifies it on the way, and a second
// backward propagates only the second gradient.
BOOST_AUTO_TEST_CASE(retained_gradients_do_not_disturb) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  test::soil(t);
  const Tensor x = seppo::variable({1, 2}, {1, 1}), w = seppo::variable({2, 2}, {1, 1, -1, -1});
  const Tensor y = seppo::linear(x, w, {}, seppo::Activation::relu);  // [2, 0]
  y.retain_grad();
  const Tensor z = seppo::scale(y, 3);
  z.retain_grad();
  BOOST_CHECK_THROW(y.grad(), StateError);  // not reached yet
  t.backward(z, std::vector<double>{1, 10});
  BOOST_CHECK(z.grad()[0] == 1 && z.grad()[1] == 10);
  BOOST_CHECK(y.grad()[0] == 3 && y.grad()[1] == 30);
  BOOST_CHECK(x.grad()[0] == 3 && x.grad()[1] == 3);
  t.backward(z, std::vector<double>{1, 10});
  BOOST_CHECK(y.grad()[0] == 6 && y.grad()[1] == 60);
  BOOST_CHECK(x.grad()[0] == 6 && x.grad()[1] == 6);
}

BOOST_AUTO_TEST_CASE(detached_tensors_and_no_grad_carry_no_gradient) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = leaf(), y = seppo::exp(x), cut = seppo::detach(y);
  BOOST_CHECK(!cut.requires_grad() && cut.data() == y.data());
  t.backward(seppo::mul(cut, x), kValues);  // `cut` is a constant for d/dx
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(x.grad()[i], kValues[i] * y.values()[i]);
  t.random = {1, 2, 3, 0};
  {
    const seppo::NoGrad no_grad;
    BOOST_CHECK(!seppo::exp(x).requires_grad());
    BOOST_CHECK(!seppo::reshape(x, {2, 2}).requires_grad());
    const Tensor dropped = seppo::dropout(seppo::ones({1000}), 0.5);  // the mode is still train
    BOOST_CHECK(seppo::sum(seppo::eq(dropped, 0)).item() > 400);
  }
  BOOST_CHECK(seppo::exp(x).requires_grad());
}

// Leaves accumulate gradients over micro-batches, whose sum is that of the whole batch.
BOOST_AUTO_TEST_CASE(gradients_accumulate_over_micro_batches) {
  seppo::RandomStream random(3, seppo::Purpose::test);
  std::vector<double> rows, w;
  for (int i = 0; i < 24; ++i) rows.push_back(random.normal());
  for (int i = 0; i < 9; ++i) w.push_back(random.normal());
  const std::vector<int> targets{0, 1, 2, 0, 1, 2, 0, 1};
  const auto run = [&](int parts) {
    seppo::Tape& t = seppo::tape();
    t.clear();
    const Tensor weight = seppo::variable({3, 3}, w);
    const int rows_each = 8 / parts;
    for (int part = 0; part < parts; ++part) {
      const auto first = static_cast<std::size_t>(part * rows_each), count = static_cast<std::size_t>(rows_each);
      const Tensor x = seppo::tensor({rows_each, 3}, std::span(rows).subspan(first * 3, count * 3));
      t.backward(seppo::scale(seppo::cross_entropy(seppo::linear(x, weight), std::span(targets).subspan(first, count),
                                                   {.reduction = seppo::Reduction::sum}),
                              1.0 / 8));
    }
    return std::vector<double>(weight.grad().begin(), weight.grad().end());
  };
  const auto whole = run(1);
  for (const int parts : {2, 4, 8}) {
    const auto sum = run(parts);
    for (std::size_t i = 0; i < whole.size(); ++i) BOOST_CHECK_SMALL(sum[i] - whole[i], 1e-15);
  }
}

// A user-defined op records like any other.
BOOST_AUTO_TEST_CASE(an_op_of_ones_own) {
  const auto square = [](const Tensor& x) {
    Tensor y = seppo::tape().create(x.shape());
    for (std::size_t i = 0; i < x.numel(); ++i) y.data()[i] = x.data()[i] * x.data()[i];
    seppo::record("square", y, {x}, [=] {
      for (std::size_t i = 0; i < x.numel(); ++i) grad_of(x)[i] += 2 * x.data()[i] * grad_of(y)[i];
    });
    return y;
  };
  seppo::tape().clear();
  const Tensor x = leaf();
  seppo::tape().backward(square(x), kValues);
  BOOST_CHECK_EQUAL(x.grad()[3], 32);
}

BOOST_AUTO_TEST_CASE(handles_and_shapes_are_small) {
  static_assert(sizeof(Tensor) == 2 * sizeof(void*) && std::is_trivially_copyable_v<Tensor>);
  static_assert(std::is_trivially_copyable_v<Shape>);  // no heap memory
  seppo::tape().clear();
  const Tensor x = leaf(), copy = x;
  BOOST_CHECK(copy.data() == x.data() && &copy.node() == &x.node());
  const Shape shape{2, 3, 4};
  BOOST_CHECK(shape.with(1, 7) == (Shape{2, 7, 4}) && shape.with(-1, 0) == (Shape{2, 3, 0}));
  BOOST_CHECK_EQUAL(shape.with(1, 7).numel(), 56);
  BOOST_CHECK(shape[-3] == 2 && shape[2] == 4);
  for (const int axis : {-4, 3}) {
    BOOST_CHECK_THROW(shape[axis], seppo::IndexError);
    BOOST_CHECK_THROW(shape.with(axis, 1), seppo::IndexError);
    BOOST_CHECK_THROW(shape.axis(axis), seppo::IndexError);
    BOOST_CHECK_THROW(x.size(axis), seppo::IndexError);
  }
  BOOST_CHECK(Shape{}.axis(0) == 0 && Shape{}.axis(-1) == 0);  // a scalar has one axis for ops
}

BOOST_AUTO_TEST_CASE(gradients_take_memory_on_first_touch) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  test::soil(t);
  const Tensor x = leaf(), y = leaf();
  BOOST_CHECK(x.node().grad == nullptr && y.node().grad == nullptr);
  const std::size_t used = t.used();
  const double* const gradient = seppo::grad_of(x);
  BOOST_CHECK(gradient == x.node().grad && t.used() > used);
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(gradient[i], 0);
  BOOST_CHECK(seppo::grad_of(x) == gradient);
  const seppo::GradTarget first = seppo::grad_target(y), second = seppo::grad_target(y);
  BOOST_CHECK(first.beta == 0 && second.beta == 1);
  BOOST_CHECK(first.grad == y.node().grad && second.grad == first.grad);
}
