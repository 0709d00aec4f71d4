// What a loss that is given to a Trainer must not do, with one shard or several, by one thread or several.
// needs: precision: double
#include "support/errors.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

using namespace seppo;
using test::check_error;

namespace {

using Rows = std::span<const int>;

std::vector<int> first_rows(int n) {
  std::vector<int> rows(static_cast<std::size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

Tensor features(Rows rows) {
  const Tensor x = zeros({static_cast<int>(rows.size()), 2});
  for (std::size_t i = 0; i < 2 * rows.size(); ++i) x.data()[i] = static_cast<real>(rows[i / 2] % 5) - 2;
  return x;
}

// A student, and a teacher in Parameters of its own.
struct Distillation {
  explicit Distillation(int shards) : trainer(student_parameters, {.lr = 0.01, .shards = shards}) {}

  ShardLoss loss(Rows rows, const std::function<Tensor(const Tensor&)>& target) const {
    const Tensor x = features(rows), difference = student(x) - target(x);
    return {sum(square(difference)), static_cast<double>(rows.size())};
  }
  double train(const std::function<Tensor(const Tensor&)>& target) {
    const std::vector<int> rows = first_rows(24);
    double last = 0;
    for (int step = 0; step < 3; ++step) last = trainer.step(rows, [&](Rows some) { return loss(some, target); }).loss;
    return last;
  }
  std::vector<real> values() const { return {student.weight.values().begin(), student.weight.values().end()}; }

  Parameters student_parameters{1}, teacher_parameters{2};
  Linear student{student_parameters.root() / "student", 2, 3};
  Linear teacher{teacher_parameters.root() / "teacher" / "up", 2, 3};
  Trainer trainer;
};

// Calls f(shards) for some numbers of shards and threads.
void for_each_setting(const std::function<void(int shards)>& f) {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const int shards : {0, 1, 4}) BOOST_TEST_CONTEXT(threads << " threads, " << shards << " shards") {
        f(shards);
      }
  }
  set_num_threads(1);
}

}  // namespace

// Several threads would add to the teacher's gradients at once, and nobody would make them zero again.
BOOST_AUTO_TEST_CASE(gradients_of_other_parameters_are_refused) {
  for_each_setting([](int shards) {
    Distillation d(shards);
    const std::vector<real> before = d.values();
    check_error<StateError>([&] { d.train([&](const Tensor& x) { return d.teacher(x); }); },
                            {"gradient: [3", "(teacher.up.", "is not among the Parameters that this step trains",
                             "freeze it, or compute with it within NoGrad"});
    check_error<StateError>([&] { d.train([&](const Tensor&) {
                                    return reshape(d.teacher.bias, {1, 3});
                                  }); },
                            {"gradient: [3] (teacher.up.bias) is not among"});
    check_error<StateError>(
        [&] {
          d.train([&](const Tensor& x) {
            return checkpoint({x}, [&teacher = d.teacher](std::span<const Tensor> in) { return teacher(in[0]); });
          });
        },
        {"(teacher.up.", "is not among"});
    BOOST_CHECK(d.values() == before);
    for (const Parameters* p : {&d.student_parameters, &d.teacher_parameters})
      for (const real g : p->gradients()) BOOST_REQUIRE_EQUAL(g, 0);
    BOOST_CHECK_EQUAL(d.trainer.steps(), 0);
  });
}

// The cures that the message names, and detach(): the same student.
BOOST_AUTO_TEST_CASE(other_parameters_may_be_computed_with) {
  std::vector<real> expected;
  for_each_setting([&](int shards) {
    Distillation within(shards), frozen(shards), detached(shards);
    within.train([&](const Tensor& x) {
      const NoGrad no_grad;
      return within.teacher(x);
    });
    frozen.teacher_parameters.freeze("");
    frozen.train([&](const Tensor& x) { return frozen.teacher(x); });
    detached.train([&](const Tensor& x) { return detach(detached.teacher(x)); });
    BOOST_CHECK(within.values() == frozen.values() && within.values() == detached.values());
    if (shards == 1) {
      if (expected.empty()) expected = within.values();
      BOOST_CHECK(within.values() == expected);  // for any number of threads
    }
  });
}

// Gradients pass through frozen parameters of others: a generator learns from a critic.
BOOST_AUTO_TEST_CASE(gradients_pass_through_frozen_parameters) {
  for_each_setting([](int shards) {
    Parameters own(1), critic_parameters(2);
    const Tensor w = own.root().parameter("w", {2}, init_constant(3));
    const Tensor critic = critic_parameters.root().parameter("critic", {2}, init_constant(5));
    critic_parameters.freeze("");
    DataParallel parallel(own, static_cast<std::size_t>(shards));
    parallel.backward(8, 0, 1, [&](std::size_t first, std::size_t last) {
      const double count = static_cast<double>(last - first);
      return ShardLoss{sum(w * critic) * static_cast<real>(count), count};
    });
    BOOST_CHECK_EQUAL(own.gradients()[1], 8 * 5);
  });
}

// PyTorch's habit. The gradient would count twice.
BOOST_AUTO_TEST_CASE(a_loss_that_calls_backward_is_refused) {
  for_each_setting([](int shards) {
    Distillation d(shards);
    const std::vector<real> before = d.values();
    const auto target = [](const Tensor& x) { return zeros({x.size(0), 3}); };
    check_error<StateError>(
        [&] {
          d.trainer.step(first_rows(24), [&](Rows rows) {
            const ShardLoss result = d.loss(rows, target);
            backward(result.loss);
            return result;
          });
        },
        {"backward: called by a loss that was given to a Trainer, which runs backward on what the loss returns"});
    check_error<StateError>(  // on a tape of its own, whose gradients would go into those of all shards
        [&] {
          d.trainer.step(first_rows(24), [&](Rows rows) {
            {
              Tape own;
              const UseTape use(own);
              backward(d.loss(rows, target).loss);
            }
            return d.loss(rows, target);
          });
        },
        {"backward: called by a loss that was given to a Trainer"});
    BOOST_CHECK(d.values() == before);
    for (const real g : d.student_parameters.gradients()) BOOST_REQUIRE_EQUAL(g, 0);
    d.train(target);  // and nothing is left of it
    BOOST_CHECK(d.values() != before);
  });
}
