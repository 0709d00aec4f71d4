// T5: its gradients, buckets, what sees what, transformers' numbers, and its names in Hugging Face's files.
// needs: precision: double
#include <seppo/models/t5.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/io/foreign_weights.h>

#include "support/sine_weights.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

using namespace seppo;

namespace {

T5Config small_config(bool is_version_1_1) {
  return {.vocabulary = 11,
          .d_model = 8,
          .n_heads = 2,
          .head_width = 3,
          .d_ff = 12,
          .enc_layers = 2,
          .dec_layers = 1,
          .buckets = 8,
          .max_distance = 6,
          .is_gated = is_version_1_1,
          .tie_output = !is_version_1_1,
          .dropout = 0};
}

const Ragged kSrc = Ragged::of({{3, 1, 4, 1, 5}, {9}}), kTgt = Ragged::of({{0, 2, 6}, {0, 5, 10, 8}});

void check_equal(const Tensor& a, const Tensor& b) {
  BOOST_REQUIRE_EQUAL(a.shape().str(), b.shape().str());
  for (std::size_t i = 0; i < a.numel(); ++i) BOOST_CHECK_SMALL(a.values()[i] - b.values()[i], 1e-12);
}

Tensor row(const Tensor& x, int i) { return slice(x, 0, i, i + 1); }

bool differ(const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item() > 1e-6; }

}  // namespace

BOOST_AUTO_TEST_CASE(gradients) {
  for (const bool is_version_1_1 : {false, true}) {
    Parameters parameters(1);
    const T5 t5(parameters.root(), small_config(is_version_1_1));
    const auto loss = [&] { return cross_entropy(t5.logits(kSrc, kTgt), {2, 6, 1, 5, 10, 8, 1}); };
    const GradientCheckReport report = gradient_check(parameters, loss);
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  }
}

// The last row of transformers' T5ForConditionalGeneration (tests/oracle/transformers_numbers.py), for texts with
// distances in all buckets. It computes norms in single precision.
BOOST_AUTO_TEST_CASE(the_numbers_of_transformers) {
  const std::map<bool, std::vector<double>> expected{
      {false,
       {0.00388867035613, -0.0124412121906, -0.000268276767437, 0.012519280748, -0.00337483477676, -0.0115372035998,
        0.00673216180441, 0.0095781440595, -0.00951940237337, -0.00680799732517, 0.0115005300553}},
      {true,
       {0.0205066392431, 0.00905392100943, -0.0231413308691, -0.00231979216177, 0.023816390545, -0.00461077909722,
        -0.0224746535159, 0.01115090479, 0.0192297394681, -0.0167467602755, -0.0143564310955}}};
  const std::vector<int> src{3, 1, 4, 1, 5, 2, 6, 5, 10, 3, 1, 4, 1, 5, 2, 6, 5, 10}, tgt(src.rbegin(), src.rend());
  for (const auto& [is_version_1_1, numbers] : expected) {
    Parameters parameters(1);
    const T5 t5(parameters.root(), small_config(is_version_1_1));
    test::fill_with_sines(parameters, t5_weights(is_version_1_1));
    const Inference inference;
    const Tensor logits = row(t5.logits(Ragged::of({src}), Ragged::of({tgt})), 17);
    BOOST_REQUIRE_EQUAL(logits.numel(), numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) BOOST_CHECK_SMALL(logits.values()[i] - numbers[i], 1e-7);
  }
}

BOOST_AUTO_TEST_CASE(a_tied_output_layer_is_given_its_input_divided_or_not) {
  const auto logits = [](bool is_scaled) {
    T5Config config = small_config(false);
    config.scale_tied = is_scaled;
    Parameters parameters(1);
    const T5 t5(parameters.root(), config);
    return t5.logits(kSrc, kTgt);
  };
  const Inference inference;
  check_equal(logits(true) * std::sqrt(8), logits(false));
}

// By hand, from the paper's implementation: 32 buckets up to distance 128.
BOOST_AUTO_TEST_CASE(buckets) {
  const auto both = [](int distance) { return t5_bucket(distance, true, 32, 128); };
  const auto back = [](int distance) { return t5_bucket(distance, false, 32, 128); };
  for (int distance = 0; distance < 8; ++distance) {
    BOOST_CHECK_EQUAL(both(-distance), distance);
    BOOST_CHECK_EQUAL(both(distance), distance == 0 ? 0 : 16 + distance);
    BOOST_CHECK_EQUAL(back(-distance), distance);
    BOOST_CHECK_EQUAL(back(distance), 0);
  }
  const std::map<int, int> ranges{{8, 8},   {11, 8},  {12, 9},  {15, 9},  {16, 10}, {22, 10}, {23, 11}, {31, 11},
                                  {32, 12}, {45, 12}, {46, 13}, {63, 13}, {64, 14}, {90, 14}, {91, 15}, {5000, 15}};
  for (const auto& [distance, bucket] : ranges) {
    BOOST_CHECK_EQUAL(both(-distance), bucket);
    BOOST_CHECK_EQUAL(both(distance), 16 + bucket);
  }
  BOOST_CHECK_EQUAL(back(-15), 15);
  BOOST_CHECK_EQUAL(back(-16), 16);
  BOOST_CHECK_EQUAL(back(-128), 31);
  BOOST_CHECK_EQUAL(back(-5000), 31);
}

// With other numbers than T5's: near distances have buckets of their own, and logarithms of far ones are equally wide.
BOOST_AUTO_TEST_CASE(buckets_of_any_number_and_distance) {
  for (const bool is_bidirectional : {false, true})
    for (const auto& [buckets, most] : {std::pair{32, 128}, {32, 1000}, {16, 64}, {8, 20}, {6, 9}}) {
      const int here = is_bidirectional ? buckets / 2 : buckets, exact = here / 2;
      for (int distance = -2 * most; distance <= 2 * most; ++distance) {
        const int far = is_bidirectional ? std::abs(distance) : std::max(-distance, 0);
        const double place = far < exact ? 0
                                         : (here - exact) * std::log(static_cast<double>(far) / exact) /
                                               std::log(static_cast<double>(most) / exact);
        if (far > exact && std::abs(place - std::round(place)) < 1e-4) continue;  // single precision decides
        const int within = far < exact ? far : std::min(exact + static_cast<int>(place), here - 1);
        const int expected = (is_bidirectional && distance > 0 ? here : 0) + within;
        BOOST_CHECK_MESSAGE(t5_bucket(distance, is_bidirectional, buckets, most) == expected,
                            buckets << " buckets up to " << most << ", distance " << distance);
      }
    }
}

BOOST_AUTO_TEST_CASE(texts_are_computed_as_if_alone) {
  Parameters parameters(1);
  const T5 t5(parameters.root(), small_config(true));
  const Inference inference;
  const Tensor all = t5.logits(kSrc, kTgt);
  for (int i = 0; i < 2; ++i) {
    const std::size_t n = static_cast<std::size_t>(i);
    check_equal(slice(all, 0, kTgt.offsets[n], kTgt.offsets[n + 1]), t5.logits(kSrc.pick({i}), kTgt.pick({i})));
  }
}

BOOST_AUTO_TEST_CASE(a_target_sees_what_precedes_and_all_of_the_source) {
  Parameters parameters(1);
  const T5 t5(parameters.root(), small_config(false));
  const Inference inference;
  const Ragged src = Ragged::of({{3, 1, 4}}), tgt = Ragged::of({{0, 2, 6}});
  const Tensor before = t5.logits(src, tgt), later = t5.logits(src, Ragged::of({{0, 7, 6}}));
  BOOST_CHECK(!differ(row(before, 0), row(later, 0)));
  BOOST_CHECK(differ(row(before, 1), row(later, 1)) && differ(row(before, 2), row(later, 2)));
  for (const std::vector<int>& other : {std::vector<int>{8, 1, 4}, std::vector<int>{3, 1, 8}})
    BOOST_CHECK(differ(row(before, 0), row(t5.logits(Ragged::of({other}), tgt), 0)));
}

BOOST_AUTO_TEST_CASE(dropout_acts_in_training_alone) {
  T5Config config = small_config(true);
  config.dropout = 0.5;
  Parameters parameters(1);
  const T5 t5(parameters.root(), config);
  tape().clear();
  tape().random = {.seed = 1, .step = 0};
  const Tensor trained = t5.logits(kSrc, kTgt), again = t5.logits(kSrc, kTgt);
  BOOST_CHECK(differ(trained, again));
  const Inference inference;
  check_equal(t5.logits(kSrc, kTgt), t5.logits(kSrc, kTgt));
}

BOOST_AUTO_TEST_CASE(configs_out_of_range_are_refused) {
  Parameters parameters(1);
  T5Config config = small_config(true);
  config.buckets = 7;
  BOOST_CHECK_THROW(T5(parameters.root() / "a", config), ArgumentError);
  config = small_config(true);
  config.max_distance = 4;
  BOOST_CHECK_THROW(T5(parameters.root() / "b", config), ArgumentError);
  config = small_config(true);
  config.head_width = 0;
  BOOST_CHECK_THROW(T5(parameters.root() / "c", config), ArgumentError);
}

BOOST_AUTO_TEST_CASE(copies_of_the_embedding_are_passed_over) {
  for (const bool is_version_1_1 : {false, true}) {
    const WeightOptions names = t5_weights(is_version_1_1);
    for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
      BOOST_CHECK_MESSAGE(names.skip(name), name);
    BOOST_CHECK(!names.skip("lm_head.weight") && !names.skip("shared.weight"));
    Parameters parameters(1);
    const T5 t5(parameters.root(), small_config(is_version_1_1));
    for (const Parameters::Entry& entry : parameters.entries()) {
      BOOST_CHECK_MESSAGE(!names.skip(entry.name), entry.name);
      BOOST_CHECK_MESSAGE(!names.skip(names.rename(entry.name).at(0)), entry.name);
    }
  }
}
