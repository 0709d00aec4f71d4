// Every allocation fails in turn: std::bad_alloc reaches the caller, nothing is lost or leaked,
// and the next step gives the same result as without a failure.
// needs: environment: OPENBLAS_NUM_THREADS=1
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include "support/failing_allocation.h"

#include <optional>
#include <vector>

using namespace seppo;
using test::fail_each_allocation;
using test::live;

namespace {

struct Model {
  Model()
      : transformer(parameters.root(), {.src_vocabulary = 9,
                                        .tgt_vocabulary = 9,
                                        .layer = {.d_model = 64, .n_heads = 2, .d_ff = 256},
                                        .enc_layers = 2,
                                        .dec_layers = 2}) {
    for (int i = 0; i < 4; ++i) {
      src.add(std::vector<int>{1, 2, 3, i});
      tgt.add(std::vector<int>{4, i, 6});
    }
  }
  Tensor loss() const { return cross_entropy(transformer.logits(src, tgt), std::vector<int>(12, 1)); }

  Parameters parameters{1};
  Transformer transformer;
  Ragged src, tgt;
};

std::vector<real> step(Model& model, Tape& on) {
  const UseTape use(on);
  on.clear();
  on.random = {.seed = 1, .step = 2};
  model.parameters.zero_gradients();
  on.backward(model.loss());
  return {model.parameters.gradients().begin(), model.parameters.gradients().end()};
}

}  // namespace

// Runs before anything has grown the node pools. As these keep their memory, leaks cannot be detected here.
BOOST_AUTO_TEST_CASE(the_first_model_and_step) {
  BOOST_CHECK_GT(fail_each_allocation([] {
                   Model model;
                   Tape fresh;
                   step(model, fresh);
                 }),
                 50);
}

BOOST_AUTO_TEST_CASE(a_training_step) {
  Model model;
  Tape steady;
  const std::vector<real> expected = step(model, steady);
  const std::vector<real> values(model.parameters.values().begin(), model.parameters.values().end());
  {
    Tape warm, second;  // grow the node pool as far as the test needs
    step(model, warm);
    step(model, second);
  }
  const long before = live;
  // Between its two steps, the arena of `fresh` merges its blocks into one. `survivor` lives through all failures.
  std::optional<Tape> survivor(std::in_place);
  const long points = fail_each_allocation([&] {
    Tape fresh;
    step(model, fresh);
    step(model, *survivor);
    step(model, fresh);
  });
  BOOST_CHECK(step(model, *survivor) == expected);
  survivor.reset();
  BOOST_CHECK_GT(points, 10);
  BOOST_CHECK_EQUAL(live, before);
  BOOST_CHECK(std::equal(values.begin(), values.end(), model.parameters.values().begin()));
  BOOST_CHECK(step(model, steady) == expected);
}

BOOST_AUTO_TEST_CASE(building_a_model) {
  { const Model warm; }
  const long before = live;
  BOOST_CHECK_GT(fail_each_allocation([] { const Model model; }), 50);
  BOOST_CHECK_EQUAL(live, before);
}

BOOST_AUTO_TEST_CASE(an_optimiser_step) {
  Model model;
  Tape steady;
  step(model, steady);
  const long before = live;
  fail_each_allocation([&] {
    Adam adam(model.parameters);
    adam.step(1e-3);
  });
  BOOST_CHECK_EQUAL(live, before);
}

BOOST_AUTO_TEST_CASE(a_checkpointed_step) {
  Model model;
  const auto run = [&] {
    Tape own;
    const UseTape use(own);
    const Tensor x = variable({16, 64}, std::vector<real>(16 * 64, 0.5f));
    const Offsets rows = model.src.offsets;
    const EncoderLayer& layer = model.transformer.encoder.layers[0];
    const Tensor y = checkpoint({x}, [&layer, rows](std::span<const Tensor> in) { return layer(in[0], rows); });
    own.backward(sum(y));
    return std::vector<real>(x.grad().begin(), x.grad().end());
  };
  const auto expected = run();
  const long before = live - 1;  // the allocation of `expected`
  fail_each_allocation([&] { run(); });
  BOOST_CHECK_EQUAL(live - 1, before);
  BOOST_CHECK(run() == expected);
}

// Shards run on threads; if one fails, the step ends with its error, and the next step is correct again.
BOOST_AUTO_TEST_CASE(a_data_parallel_step) {
  Model model;
  const auto run = [&](DataParallel& parallel) {
    model.parameters.zero_gradients();
    parallel.backward(4, 1, 1, [&](std::size_t first, std::size_t last) {
      Ragged src, tgt;
      for (std::size_t i = first; i < last; ++i) {
        src.add(model.src[i]);
        tgt.add(model.tgt[i]);
      }
      const Tensor loss = cross_entropy(model.transformer.logits(src, tgt), std::vector<int>(tgt.tokens.size(), 1));
      return ShardLoss{loss, 1, 0};
    });
    return std::vector<real>(model.parameters.gradients().begin(), model.parameters.gradients().end());
  };
  DataParallel steady(model.parameters, 2);
  const auto expected = run(steady);
  fail_each_allocation([&] {
    DataParallel fresh(model.parameters, 2);
    run(fresh);
  });
  BOOST_CHECK(run(steady) == expected);
}
