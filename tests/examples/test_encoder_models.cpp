// Predictor and Classifier: gradients in double precision, pooling, class tokens, and configs.
// needs: precision: double
#include <seppo/autograd/core/guards.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/gradient_check.h>
#include "encoder_models.h"
#include "reverse/model.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace seppo;
using namespace examples;

namespace {

constexpr int kSymbols = 11;

Ragged batch_of(std::initializer_list<int> lengths) {
  RandomStream random(1, Purpose::test);
  Ragged batch;
  for (const int length : lengths) {
    std::vector<int> sequence;
    for (int i = 0; i < length; ++i) sequence.push_back(static_cast<int>(random.below(kSymbols)));
    batch.add(sequence);
  }
  return batch;
}

Tensor unit_vectors(std::span<const int> symbols) {
  std::vector<real> values(symbols.size() * kSymbols);
  for (std::size_t i = 0; i < symbols.size(); ++i) values[i * kSymbols + static_cast<std::size_t>(symbols[i])] = 1;
  return tensor({static_cast<int>(symbols.size()), kSymbols}, values);
}

PredictorConfig small_predictor() {
  return {.features = kSymbols,
          .classes = 5,
          .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12, .dropout = 0},
          .n_layers = 2,
          .max_length = 8};
}

}  // namespace

BOOST_AUTO_TEST_CASE(predictor_gradients) {
  std::vector<PredictorConfig> configs(3, small_predictor());
  configs[1].layer.norm = Norm::pre;
  configs[2].output_network = false;
  configs[2].layer.dropout = configs[2].input_dropout = 0.2;
  for (const PredictorConfig& config : configs) {
    Parameters parameters(1);
    const Predictor model(parameters.root(), config);
    const Ragged batch = batch_of({4, 2, 5});
    std::vector<int> targets;
    for (const int token : batch.tokens) targets.push_back(token % 5);
    const auto report = gradient_check(
        parameters, [&] { return cross_entropy(model(unit_vectors(batch.tokens), batch.offsets), targets); });
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  }
}

BOOST_AUTO_TEST_CASE(classifier_gradients) {
  const std::vector<int> targets{3, 0, 4};
  for (const Pooling pooling : {Pooling::class_token, Pooling::mean, Pooling::max}) {
    Parameters parameters(1);
    const Classifier model(parameters.root(), {.predictor = small_predictor(), .pooling = pooling});
    const Ragged batch = batch_of({4, 8, 1});  // one has the maximum length
    const auto report = gradient_check(
        parameters, [&] { return cross_entropy(model(unit_vectors(batch.tokens), batch.offsets), targets); });
    BOOST_CHECK_MESSAGE(report.passed, report.text);
    for (const auto& entry : parameters.entries())  // matrices decay; gains, biases and the class token do not
      BOOST_CHECK_EQUAL(entry.decay, entry.shape.rank() > 1 && !entry.name.ends_with("class_token"));
    if (!model.class_token) continue;
    backward(cross_entropy(model(unit_vectors(batch.tokens), batch.offsets), targets));
    const auto gradient = model.class_token->grad();
    BOOST_CHECK(std::any_of(gradient.begin(), gradient.end(), [](real g) { return g != 0; }));
  }
}

BOOST_AUTO_TEST_CASE(pooling_is_over_each_sequence) {
  tape().clear();
  const Tensor x = tensor({3, 2}, {1, 8, 5, 2, 7, 7});
  const std::vector<int> rows{0, 2, 3}, empty{0, 0, 3};
  const auto pooled = [&](Pooling pooling) {
    const auto values = pool(x, rows, pooling).values();
    return std::vector<real>(values.begin(), values.end());
  };
  BOOST_CHECK((pooled(Pooling::class_token) == std::vector<real>{1, 8, 7, 7}));
  BOOST_CHECK((pooled(Pooling::mean) == std::vector<real>{3, 5, 7, 7}));
  BOOST_CHECK((pooled(Pooling::max) == std::vector<real>{5, 8, 7, 7}));
  BOOST_CHECK_THROW(pool(x, empty, Pooling::mean), ShapeError);
}

// An empty sequence leaves nothing to pool, so it is refused.
BOOST_AUTO_TEST_CASE(an_empty_sequence_has_no_vector) {
  const std::vector<int> rows{0, 2, 2, 3};
  for (const Pooling pooling : {Pooling::class_token, Pooling::mean, Pooling::max})
    BOOST_CHECK_EXCEPTION(pool(ones({3, 4}), rows, pooling), ShapeError,
                          [](const ShapeError& e) { return std::string(e.what()) == "pool: sequence 1 is empty"; });
}

BOOST_AUTO_TEST_CASE(sequences_do_not_see_each_other) {
  for (const Pooling pooling : {Pooling::class_token, Pooling::mean, Pooling::max}) {
    tape().clear();
    Parameters parameters(1);
    const Classifier model(parameters.root(), {.predictor = small_predictor(), .pooling = pooling});
    const Ragged batch = batch_of({4, 8, 1});
    const Tensor whole = model(unit_vectors(batch.tokens), batch.offsets);
    Ragged turned;
    for (const std::size_t s : {2u, 0u, 1u}) turned.add(batch[s]);
    const Tensor permuted = model(unit_vectors(turned.tokens), turned.offsets);
    const std::size_t from[] = {2, 0, 1};
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t j = 0; j < 5; ++j)
        BOOST_CHECK_SMALL(permuted.values()[s * 5 + j] - whole.values()[from[s] * 5 + j], 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(bad_configurations_are_refused) {
  Parameters parameters(0);
  PredictorConfig config = small_predictor();
  config.features = 0;
  BOOST_CHECK_THROW(Predictor(parameters.root() / "a", config), ArgumentError);
  config = small_predictor();
  config.input_dropout = -1;
  BOOST_CHECK_THROW(Classifier(parameters.root() / "b", {.predictor = config}), ArgumentError);
  config = small_predictor();
  const Predictor model(parameters.root() / "c", config);
  const Ragged longer = batch_of({9});
  BOOST_CHECK_THROW(model(unit_vectors(longer.tokens), longer.offsets), IndexError);
}

// PlainLayer applies dropout to the outputs of its norms, and nowhere before.
BOOST_AUTO_TEST_CASE(the_plain_layer_drops_after_its_norm) {
  Parameters parameters(1);
  const reversal::PlainLayer layer(parameters.root(), {.d_model = 32, .n_heads = 2, .d_ff = 16, .dropout = 0.25}),
      whole(parameters.root() / "whole", {.d_model = 32, .n_heads = 2, .d_ff = 16, .dropout = 0});
  RandomStream random(1, Purpose::test);
  const Tensor x = randn({200, 32}, random);
  const std::vector<int> rows{0, 100, 200};
  const auto share_of_zeros = [](const Tensor& y) {
    return static_cast<double>(std::ranges::count(y.values(), real{0})) / static_cast<double>(y.numel());
  };
  BOOST_CHECK_SMALL(share_of_zeros(layer(x, rows)) - 0.25, 0.02);
  BOOST_CHECK_EQUAL(share_of_zeros(whole(x, rows)), 0);
  // Without dropout, training mode and inference give the same result.
  const Tensor trained = whole(x, rows);
  const Inference guard;
  const Tensor used = whole(x, rows);
  BOOST_CHECK(std::ranges::equal(trained.values(), used.values()));
}
