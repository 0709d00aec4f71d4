// The decoder-only model: gradients in double precision, and the properties of a language model.
// needs: precision: double; full: single
#include <seppo/models/language_model.h>
#include <seppo/models/window_score.h>
#include <seppo/nn/optim/adam.h>

#include "support/precision.h"
#include "support/ranges.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

using namespace seppo;

namespace {

constexpr int kVocabulary = 7;

LanguageModelConfig small(bool bias = false) {
  LanguageModelConfig config{.vocabulary = kVocabulary, .n_layers = 2, .max_length = 8};
  config.layer.d_model = 8;
  config.layer.n_heads = 2;
  config.layer.d_ff = 32;
  config.layer.dropout = config.layer.attention_dropout = 0;
  config.layer.bias = bias;
  return config;
}

const Ragged kBatch = [] {
  Ragged batch;
  batch.add(std::vector<int>{0, 1, 2, 3, 4});
  batch.add(std::vector<int>{5});
  batch.add(std::vector<int>{6, 0, 5});
  return batch;
}();
const std::vector<int> kNext{1, 2, 3, 4, 5, 6, 0, 5, 2};

}  // namespace

BOOST_AUTO_TEST_CASE(gradients) {
  for (const bool bias : {false, true})
    for (const double dropout : {0.0, 0.3}) {
      LanguageModelConfig config = small(bias);
      config.layer.dropout = config.layer.attention_dropout = dropout;
      Parameters parameters(1);
      const LanguageModel model(parameters.root(), config);
      const auto report = test::check_gradients(parameters, [&] {
        tape().random = {1, 2, 3, 0};  // the same dropout masks each time
        return cross_entropy(model(kBatch), kNext);
      });
      BOOST_CHECK_MESSAGE(report.passed, report.text);
    }
}

BOOST_AUTO_TEST_CASE(the_future_is_hidden_and_the_past_is_not) {
  tape().clear();
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), small());
  const Tensor logits = model(kBatch);
  const std::vector<real> before(logits.values().begin(), logits.values().end());
  for (std::size_t changed = 0; changed < 5; ++changed) {
    Ragged batch = kBatch;
    batch.tokens[changed] = (batch.tokens[changed] + 1) % kVocabulary;
    const auto after = model(batch).values();
    for (std::size_t row = 0; row < kBatch.tokens.size(); ++row) {
      bool same = true;
      for (std::size_t j = 0; j < kVocabulary; ++j)
        same = same && after[row * kVocabulary + j] == before[row * kVocabulary + j];
      const bool may_change = row >= changed && row < 5;  // same sequence, at or after the change
      BOOST_CHECK_MESSAGE(same != may_change, "token " << changed << " changed, row " << row);
    }
  }
}

BOOST_AUTO_TEST_CASE(parameters_are_those_of_the_architecture) {
  const auto count = [](bool bias) {
    Parameters parameters(1);
    const LanguageModel model(parameters.root(), small(bias));
    return parameters.count();
  };
  // embedding, positions; per layer: norms, QKV and output projection, feed-forward; final norm
  BOOST_CHECK_EQUAL(count(false), 7u * 8 + 8 * 8 + 2 * (2 * 8 + 4 * 8 * 8 + 2 * 8 * 32) + 8);
  BOOST_CHECK_EQUAL(count(true) - count(false), 2u * (2 * 8 + 4 * 8 + 32 + 8) + 8);
}

BOOST_AUTO_TEST_CASE(a_sequence_can_be_learnt_by_heart) {
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), small());
  Adam adam(parameters);
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    tape().clear();
    const Tensor l = cross_entropy(model(kBatch), kNext);
    loss = l.item();
    if (step == 0) BOOST_CHECK_SMALL(loss - std::log(kVocabulary), 0.1);
    tape().backward(l);
    adam.step(0.01);
  }
  BOOST_CHECK_LT(loss, 0.01);
  tape().clear();
}

// The loss of the features is that of their scores, with the same gradients.
BOOST_AUTO_TEST_CASE(the_loss_is_that_of_the_scores) {
  for (const bool is_tied : {false, true}) {
    LanguageModelConfig config = small();
    config.tie_output = is_tied;
    Parameters parameters(1);
    const LanguageModel model(parameters.root(), config);
    const auto gradients_of = [&](const auto& loss_of) {
      tape().clear();
      parameters.zero_gradients();
      const Tensor loss = loss_of(model.features(kBatch));
      backward(3 * loss);
      std::vector<real> all(parameters.gradients().begin(), parameters.gradients().end());
      all.push_back(loss.item());
      return all;
    };
    const auto fused = gradients_of([&](const Tensor& x) { return model.loss(x, kNext, {.rows_at_once = 2}); });
    const auto plain = gradients_of(
        [&](const Tensor& x) { return cross_entropy(model.scores(x), kNext, {.reduction = Reduction::sum}); });
    for (std::size_t i = 0; i < plain.size(); ++i)
      BOOST_CHECK_SMALL(double{fused[i]} - double{plain[i]}, 10 * test::kTolerance);
  }
}

// Without gradients, a deeper model needs little more memory: the result of each layer, and the rest of one.
BOOST_AUTO_TEST_CASE(evaluation_takes_the_memory_of_one_layer) {
  const auto used = [](int layers) {
    LanguageModelConfig config = small();
    config.n_layers = layers;
    Parameters parameters(1);
    const LanguageModel model(parameters.root(), config);
    tape().clear();
    const UseMode eval(Mode::eval);
    model.features(kBatch);
    return tape().used();
  };
  const std::size_t result = 9 * 8 * sizeof(real);
  BOOST_CHECK_LE(used(12) - used(2), 10 * 2 * result);
}

// Layers that backward computes again give the same gradients, though the batch has ended by then.
BOOST_AUTO_TEST_CASE(checkpointed_layers_change_no_bit) {
  std::vector<LanguageModelConfig> forms{small(true), small(), small()};
  forms[0].layer.dropout = forms[0].layer.attention_dropout = 0.3;
  forms[1].layer.norm = Norm::post;
  forms[1].positions = Positions::alibi;
  forms[2].positions = Positions::rotary_halves;
  forms[2].layer.norm_kind = NormKind::rms;
  forms[2].layer.activation = Activation::swiglu;
  forms[2].layer.n_kv_heads = 1;
  forms[2].tie_output = false;
  for (const LanguageModelConfig& config : forms) {
    Parameters parameters(1);
    LanguageModel model(parameters.root(), config);
    const auto gradients = [&](bool checkpoints) {
      model.layers.checkpoints = checkpoints;
      parameters.zero_gradients();
      tape().clear();
      tape().random = {1, 2, 3, 0};
      Tensor scores;
      {
        const Ragged batch = kBatch;
        scores = model(batch);
      }
      tape().backward(cross_entropy(scores, kNext));
      return std::vector<real>(parameters.gradients().begin(), parameters.gradients().end());
    };
    const std::vector<real> expected = gradients(false);
    BOOST_CHECK(std::ranges::count(expected, real{0}) < std::ssize(expected) / 2);
    BOOST_CHECK(gradients(true) == expected);
  }
}

// A bias of the scores is an input of every layer, and a mask is kept for backward.
BOOST_AUTO_TEST_CASE(checkpointed_layers_take_a_bias_and_a_mask) {
  Parameters parameters(1);
  const LayerConfig config{.d_model = 8, .n_heads = 2, .d_ff = 16, .dropout = 0, .norm = Norm::pre};
  Encoder layers(parameters.root() / "layers", 2, config);
  const Tensor weights = parameters.root().parameter("bias", {2, 3, 3}, init_normal(1));
  const Tensor start = parameters.root().parameter("x", {3, 8}, init_normal(1));
  std::vector<int> offsets, lengths, query_lengths;
  std::vector<std::uint8_t> pairs;
  const std::function<Mask()> masks[] = {[&] { return Mask::valid_lengths(lengths); },
                                         [&] { return Mask::valid_query_lengths(query_lengths); },
                                         [&] { return Mask::allowed(pairs); }};
  for (const auto& mask : masks) {
    const auto gradients = [&](bool checkpoints) {
      layers.checkpoints = checkpoints;
      parameters.zero_gradients();
      tape().clear();
      offsets = {0, 3};
      lengths = {2};
      query_lengths = {2, 1, 2};
      pairs = {1, 1, 0, 1, 0, 0, 1, 1, 0};
      const Tensor y = layers(tanh(start), offsets, {.mask = mask(), .bias = exp(weights)});
      std::ranges::fill(offsets, 0);  // the caller's are not asked again
      std::ranges::fill(lengths, 0);
      std::ranges::fill(query_lengths, 0);
      std::ranges::fill(pairs, 0);
      tape().backward(sum(square(y)));
      return std::vector<real>(parameters.gradients().begin(), parameters.gradients().end());
    };
    const std::vector<real> expected = gradients(false);
    BOOST_CHECK(gradients(true) == expected);
    BOOST_CHECK(weights.grad()[0] != 0 && weights.grad()[2] == 0);  // the third key is masked
  }
}

BOOST_AUTO_TEST_CASE(checkpointed_layers_share_their_memory) {
  LanguageModelConfig config = small();
  config.n_layers = 12;
  config.max_length = 256;
  Parameters parameters(1);
  LanguageModel model(parameters.root(), config);
  const Ragged text = Ragged::of_length(256, std::vector<int>(256, 3));
  const auto peak = [&](bool checkpoints) {
    model.layers.checkpoints = checkpoints;
    tape().clear();
    tape().backward(sum(model(text)));
    return tape().used();
  };
  const std::size_t all = peak(false);
  BOOST_CHECK_LT(peak(true), all / 4);
}

BOOST_AUTO_TEST_CASE(sequences_do_not_see_each_other) {
  tape().clear();
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), small());
  const auto whole = model(kBatch).values();
  Ragged turned;
  for (const std::size_t s : {2u, 0u, 1u}) turned.add(kBatch[s]);
  const auto permuted = model(turned).values();
  const std::size_t row_of[] = {6, 7, 8, 0, 1, 2, 3, 4, 5};  // row in the batch for each row of the permuted batch
  for (std::size_t r = 0; r < 9; ++r)
    for (std::size_t j = 0; j < kVocabulary; ++j)
      BOOST_CHECK_SMALL(double{permuted[r * kVocabulary + j] - whole[row_of[r] * kVocabulary + j]}, test::kTolerance);
}

BOOST_AUTO_TEST_CASE(positions_are_an_option) {
  for (const Positions positions : {Positions::none, Positions::sinusoid, Positions::learned}) {
    LanguageModelConfig config = small();
    config.positions = positions;
    Parameters parameters(1);
    const LanguageModel model(parameters.root(), config);
    BOOST_CHECK_EQUAL(parameters.find("positions.weight") != nullptr, positions == Positions::learned);
    tape().clear();
    Ragged equal;
    equal.add(std::vector<int>{3, 3});
    const auto scores = model(equal).values();
    double difference = 0;
    for (std::size_t j = 0; j < kVocabulary; ++j)
      difference = std::max(difference, double{std::abs(scores[j] - scores[kVocabulary + j])});
    BOOST_CHECK(positions == Positions::none ? difference < test::kTolerance : difference > 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(bad_configurations_are_refused) {
  const auto make = [](const LanguageModelConfig& config) {
    Parameters parameters(0);
    LanguageModel(parameters.root(), config);
  };
  test::check_ranges(small(), make);
  LanguageModelConfig config = small();
  config.layer.n_heads = 3;
  BOOST_CHECK_THROW(make(config), ArgumentError);
}

// The defaults are GPT-2's small model for characters, as the header documents.
BOOST_AUTO_TEST_CASE(the_defaults_are_gpt2s_without_biases) {
  const LanguageModelConfig c;
  BOOST_CHECK(c.layer.norm == Norm::pre && c.layer.activation == Activation::gelu && !c.layer.bias);
  BOOST_CHECK(c.layer.norm_kind == NormKind::layer && c.layer.n_kv_heads == 0);
  BOOST_CHECK_EQUAL(c.layer.d_ff, 4 * c.layer.d_model);
  BOOST_CHECK(c.layer.d_model == 384 && c.layer.n_heads == 6 && c.n_layers == 6 && c.max_length == 256);
  BOOST_CHECK(c.layer.dropout == 0.2 && c.layer.attention_dropout == 0.2);
  BOOST_CHECK(c.positions == Positions::learned && c.rope_theta == 1e4 && c.tie_output);
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), {.vocabulary = 3, .n_layers = 1, .max_length = 5});
  BOOST_CHECK(!model.output);
  // The embedding, positions, four attention matrices, two feed-forward matrices, and the gains of three norms.
  BOOST_CHECK_EQUAL(parameters.count(), 3 * 384 + 5 * 384 + 4 * 384 * 384 + 2 * 384 * 1536 + 3 * 384);
}

// Tokens between windows would not be predicted.
BOOST_AUTO_TEST_CASE(strides_of_scores) {
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), small());
  const std::vector<int> tokens(20, 3);
  for (const auto& [window, stride] : {std::pair{4, 5}, {4, 0}, {4, -1}, {0, 0}, {-1, -1}})
    BOOST_CHECK_THROW(score_windows([&] { return model; }, tokens, window, stride), ArgumentError);
  for (const int stride : {1, 3, 4})
    BOOST_CHECK_EQUAL(score_windows([&] { return model; }, tokens, 4, stride).tokens, 19);
}

// Layers with positions of their own, as Gemma 3's that have windows, are not scaled with the others (linear, for
// longer texts).
BOOST_AUTO_TEST_CASE(local_positions_are_not_scaled) {
  const auto scores = [](LayerPositions positions, double factor) {
    LanguageModelConfig config = small();
    config.positions = Positions::rotary;
    config.decoder.local_rope_theta = 100;
    config.decoder.attentions.assign(2, {.positions = positions});
    if (factor > 1) config.decoder.rope.scaling = {.kind = RotaryScale::linear, .factor = factor};
    tape().clear();
    Parameters parameters(1);
    const LanguageModel model(parameters.root(), config);
    const Tensor y = model(kBatch);
    return std::vector<real>(y.values().begin(), y.values().end());
  };
  BOOST_CHECK(scores(LayerPositions::local, 1) == scores(LayerPositions::local, 8));
  BOOST_CHECK(scores(LayerPositions::common, 1) != scores(LayerPositions::common, 8));
}
