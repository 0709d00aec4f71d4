// Modules with running statistics, which are saved but not trained.
#define BOOST_TEST_MODULE batch_norm
#include <seppo/nn/optim/optimisers.h>
#include <seppo/nn/layers/basic.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

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

// Concurrent shards would mix their statistics.
BOOST_AUTO_TEST_CASE(shards_are_refused) {
  Parameters parameters(0);
  const BatchNorm norm(parameters.root() / "norm", 2);
  const auto loss = [&](std::size_t, std::size_t) { return ShardLoss{sum(norm(tensor({3, 2}, kRows))), 1, 0}; };
  BOOST_CHECK_THROW(DataParallel(parameters, 2).backward(8, 0, 1, loss), StateError);
  BOOST_CHECK_EQUAL(norm.running_mean.values()[1], 0);
  BOOST_CHECK_NO_THROW(DataParallel(parameters, 1).backward(8, 0, 1, loss));  // nothing runs concurrently
  const auto given = [&](std::size_t, std::size_t) {
    return ShardLoss{sum(batch_norm(tensor({3, 2}, kRows), norm.weight, norm.bias, norm.running_mean, norm.running_var,
                                    {.use_running_statistics = true})),
                     1, 0};
  };
  BOOST_CHECK_NO_THROW(DataParallel(parameters, 2).backward(8, 0, 1, given));
}
