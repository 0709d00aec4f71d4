// Modules with running statistics, which are saved but not trained.
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/nn/modules/batch_norm.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

using namespace seppo;

namespace {
const std::vector<real> kRows{1, 10, 2, 20, 6, 30};
}

BOOST_AUTO_TEST_CASE(optimisers_leave_running_statistics_alone) {
  Parameters parameters(0);
  const BatchNorm norm(parameters.root() / "norm", 2);
  const LayerNorm rms(parameters.root() / "rms", 2, {.kind = NormKind::rms});
  BOOST_CHECK_EQUAL(parameters.count(), 6);
  BOOST_CHECK(parameters.find("norm.running_var") && !parameters.find("norm.running_var")->trained);
  Adam adam(parameters, {.weight_decay = 0.1});
  tape().clear();
  tape().backward(sum(square(rms(norm(tensor({3, 2}, kRows))))));
  BOOST_CHECK_CLOSE(norm.running_mean.values()[1], 2.0f, 1e-4f);  // 0.9 * 0 + 0.1 * 20
  BOOST_CHECK_CLOSE(norm.running_var.values()[1], 10.9f, 1e-4f);  // 0.9 * 1 + 0.1 * 100
  adam.step(0.1);
  BOOST_CHECK_CLOSE(norm.running_mean.values()[1], 2.0f, 1e-4f);
  BOOST_CHECK_NE(rms.weight.values()[0], 1);
}

BOOST_AUTO_TEST_CASE(eval_mode_uses_running_statistics) {
  Parameters parameters(0);
  const BatchNorm norm(parameters.root() / "norm", 2);
  tape().clear();
  const UseMode eval(Mode::eval);
  const Tensor y = norm(tensor({3, 2}, kRows));  // mean 0 and variance 1 so far
  BOOST_CHECK_CLOSE(y.values()[5], 30.0f, 1e-2f);
}

// Shards would mix their statistics, also where they are computed one after another, or one on each rank
// (tests/ranks/ranks_check.cpp).
BOOST_AUTO_TEST_CASE(shards_are_refused) {
  Parameters parameters(0);
  const BatchNorm norm(parameters.root() / "norm", 2);
  const auto loss = [&](std::size_t, std::size_t) { return ShardLoss{sum(norm(tensor({3, 2}, kRows))), 1, 0}; };
  for (const bool finds_anomaly : {false, true})
    BOOST_CHECK_THROW(DataParallel(parameters, 2).backward(8, 0, 1, loss, finds_anomaly), StateError);
  const auto checkpointed = [&](std::size_t, std::size_t) {
    return ShardLoss{sum(checkpoint({tensor({3, 2}, kRows)}, [&](std::span<const Tensor> x) { return norm(x[0]); })), 1,
                     0};
  };
  BOOST_CHECK_THROW(DataParallel(parameters, 2).backward(8, 0, 1, checkpointed, true), StateError);
  BOOST_CHECK_EQUAL(norm.running_mean.values()[1], 0);
  BOOST_CHECK_NO_THROW(DataParallel(parameters, 1).backward(8, 0, 1, loss));  // nothing runs concurrently
  const auto given = [&](std::size_t, std::size_t) {
    return ShardLoss{sum(batch_norm(tensor({3, 2}, kRows), norm.weight, norm.bias, norm.running_mean, norm.running_var,
                                    {.use_running_statistics = true})),
                     1, 0};
  };
  BOOST_CHECK_NO_THROW(DataParallel(parameters, 2).backward(8, 0, 1, given));
}

// A step that is not taken, because it is skipped, refused, or the loss throws, leaves no trace in them either.
BOOST_AUTO_TEST_CASE(running_statistics_move_with_the_step_or_not_at_all) {
  for (const OnNan on_nan : {OnNan::skip, OnNan::stop}) {
    Parameters parameters(0);
    const BatchNorm norm(parameters.root() / "norm", 2);
    Trainer trainer(parameters, {.shards = 1, .on_nan = on_nan});
    const std::vector<int> example{0};
    const auto step = [&](real factor, bool throws = false) {
      return trainer.step(example, [&](std::span<const int>) {
        const Tensor loss = sum(norm(tensor({3, 2}, kRows) * factor));
        if (throws) throw std::runtime_error("bad example");
        return ShardLoss{loss, 1, 0};
      });
    };
    const auto statistics = [&] {
      std::vector<real> all(norm.running_mean.values().begin(), norm.running_mean.values().end());
      all.insert(all.end(), norm.running_var.values().begin(), norm.running_var.values().end());
      return all;
    };
    step(1);
    BOOST_CHECK_CLOSE(norm.running_mean.values()[1], 2.0f, 1e-4f);
    const std::vector<real> before = statistics();
    const real nan = std::numeric_limits<real>::quiet_NaN();
    if (on_nan == OnNan::skip)
      BOOST_CHECK(step(nan).is_skipped);
    else
      BOOST_CHECK_EXCEPTION(step(nan), NumericError, [](const NumericError& e) {
        return std::string_view(e.what()).find("was not finite before it") == std::string_view::npos;
      });
    BOOST_CHECK(statistics() == before);
    BOOST_CHECK_THROW(step(2, true), std::runtime_error);
    BOOST_CHECK(statistics() == before);
    step(2);
    BOOST_CHECK_CLOSE(norm.running_mean.values()[1], 5.8f, 1e-4f);  // 0.9 * 2 + 0.1 * 40
  }
}
