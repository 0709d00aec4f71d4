// Sampling tokens: only allowed ones, with the right frequencies.
#include <seppo/autograd/core/check.h>
#include <seppo/models/decoding/sampling.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

using namespace seppo;

namespace {

// The relative frequency of each token.
std::vector<double> shares(const std::vector<real>& scores, const SamplingOptions& options, int draws = 20'000) {
  RandomStream random(1, Purpose::sampling);
  std::vector<double> count(scores.size());
  for (int i = 0; i < draws; ++i) count[static_cast<std::size_t>(sample_token(scores, options, random))] += 1.0 / draws;
  return count;
}

const std::vector<real> kScores{std::log(0.1f), std::log(0.4f), std::log(0.3f), std::log(0.2f)};

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_come_as_often_as_they_are_probable) {
  const auto plain = shares(kScores, {});
  const std::vector<double> expected{0.1, 0.4, 0.3, 0.2};
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_SMALL(plain[i] - expected[i], 0.015);
  // at temperature 1/2, proportional to the squares
  const auto cold = shares(kScores, {.temperature = 0.5});
  const double squares = 0.01 + 0.16 + 0.09 + 0.04;
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_SMALL(cold[i] - expected[i] * expected[i] / squares, 0.015);
}

BOOST_AUTO_TEST_CASE(only_the_best_are_drawn) {
  const auto two = shares(kScores, {.top_k = 2});
  BOOST_CHECK(two[0] == 0 && two[3] == 0);
  BOOST_CHECK_SMALL(two[1] - 4.0 / 7, 0.015);
  const auto most = shares(kScores, {.top_p = 0.65});  // 0.4 is too little, 0.7 is enough
  BOOST_CHECK(most[0] == 0 && most[3] == 0);
  BOOST_CHECK_SMALL(most[2] - 3.0 / 7, 0.015);
  const auto both = shares(kScores, {.top_k = 3, .top_p = 0.5});  // 4/9 of the three is too little
  BOOST_CHECK(both[0] == 0 && both[3] == 0 && both[1] > 0 && both[2] > 0);
  // Reaching top_p exactly is enough.
  const auto half = shares({2, 2, 2, 2}, {.top_p = 0.5});
  BOOST_CHECK(half[0] > 0.4 && half[1] > 0.4 && half[2] == 0 && half[3] == 0);
  const auto first = shares({2, 2, 2, 2}, {.top_k = 2});
  BOOST_CHECK(first[0] > 0.4 && first[1] > 0.4 && first[2] == 0 && first[3] == 0);
  BOOST_CHECK_GT(shares(kScores, {.top_p = 1e-9})[1], 0.9999);
  BOOST_CHECK_GT(shares(kScores, {.top_k = 1})[1], 0.9999);
}

// The distribution that the options describe, computed from their definitions.
BOOST_AUTO_TEST_CASE(every_mixture_of_options_has_its_distribution) {
  const std::vector<real> scores{0.3f, 2.1f, -1.0f, 1.7f, 2.1f, -4.0f, 0.9f, 1.2f, -0.2f, 0.8f};
  const std::vector<int> text{1, 5, 1, 7};
  RandomStream random(5, Purpose::test);
  for (int round = 0; round < 40; ++round) {
    const SamplingOptions o{.repetition_penalty = random.below(2) ? 1.0 : 2.0,
                            .temperature = 0.5 + random.uniform(),
                            .top_k = static_cast<int>(random.below(12)),
                            .top_p = random.below(3) ? 0.3 + 0.7 * random.uniform() : 1.0,
                            .min_p = random.below(3) ? 0.3 * random.uniform() : 0.0};
    std::vector<std::pair<double, std::size_t>> ranked;  // by descending score, then ascending id
    for (std::size_t i = 0; i < scores.size(); ++i) {
      double x = static_cast<double>(scores[i]);
      if (i == 1 || i == 5 || i == 7) x = x > 0 ? x / o.repetition_penalty : x * o.repetition_penalty;
      ranked.emplace_back(-x / o.temperature, i);
    }
    std::sort(ranked.begin(), ranked.end());
    if (o.top_k > 0 && o.top_k < 10) ranked.resize(static_cast<std::size_t>(o.top_k));
    const auto share = [&](double score) { return std::exp(-score + ranked[0].first); };
    double total = 0, kept = 0, rest = 0;
    for (const auto& [score, id] : ranked) total += share(score);
    std::vector<double> expected(scores.size());
    for (const auto& [score, id] : ranked) {
      if (kept < o.top_p * total && share(score) >= o.min_p) expected[id] = share(score);
      kept += share(score);
    }
    for (const double p : expected) rest += p;
    std::vector<double> count(scores.size());
    for (int i = 0; i < 5000; ++i) count[static_cast<std::size_t>(sample_token(scores, o, random, text))] += 1;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double p = expected[i] / rest;
      BOOST_CHECK_SMALL(count[i] / 5000 - p, 5 * std::sqrt(p * (1 - p) / 5000) + 1e-9);
    }
  }
}

BOOST_AUTO_TEST_CASE(min_p_is_a_share_of_the_best) {  // relative probabilities 0.25, 1, 0.75 and 0.5
  const std::vector<std::pair<double, std::vector<bool>>> cases{{0.24, {true, true, true, true}},
                                                                {0.26, {false, true, true, true}},
                                                                {0.49, {false, true, true, true}},
                                                                {0.51, {false, true, true, false}},
                                                                {0.76, {false, true, false, false}}};
  for (const auto& [min_p, drawn] : cases) {
    const auto found = shares(kScores, {.min_p = min_p});
    for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(found[i] > 0, drawn[i]);
  }
  const std::vector<real> scores{2, 1, 0};
  const auto exact = shares(scores, {.min_p = std::exp(static_cast<double>(scores[1] - scores[0]))});
  BOOST_CHECK(exact[0] > 0 && exact[1] > 0 && exact[2] == 0);
  const auto equal = shares({1, 1, 0}, {.min_p = 1});
  BOOST_CHECK(equal[0] > 0 && equal[1] > 0 && equal[2] == 0);
}

BOOST_AUTO_TEST_CASE(repetitions_are_penalised_once_whatever_their_sign) {
  RandomStream random(1, Purpose::sampling);
  const SamplingOptions o{.repetition_penalty = 2, .temperature = 0};
  const std::vector<int> first{0}, both{0, 1, 0, 0}, none;
  BOOST_CHECK_EQUAL(sample_token(std::vector<real>{3, 2}, o, random, first), 1);
  BOOST_CHECK_EQUAL(sample_token(std::vector<real>{3, 2}, o, random, both), 0);
  BOOST_CHECK_EQUAL(sample_token(std::vector<real>{3, 2}, o, random, none), 0);
  BOOST_CHECK_EQUAL(sample_token(std::vector<real>{-2, -3}, o, random, first), 1);
  const std::vector<int> unknown{2};
  BOOST_CHECK_THROW(sample_token(std::vector<real>{3, 2}, o, random, unknown), IndexError);
  BOOST_CHECK_EQUAL(sample_token(std::vector<real>{3, 2}, {.temperature = 0}, random, unknown), 0);  // not looked at
}

BOOST_AUTO_TEST_CASE(scores_that_are_not_finite_are_refused) {
  RandomStream random(1, Purpose::sampling);
  const real infinity = std::numeric_limits<real>::infinity(), nan = std::numeric_limits<real>::quiet_NaN();
  for (const double temperature : {0.0, 1.0})
    for (const std::vector<real>& scores :
         std::vector<std::vector<real>>{{nan, 1}, {1, nan}, {-infinity, -infinity}, {infinity, 1}})
      BOOST_CHECK_THROW(sample_token(scores, {.temperature = temperature}, random), NumericError);
}

BOOST_AUTO_TEST_CASE(temperature_zero_takes_the_first_of_the_best) {
  RandomStream random(1, Purpose::sampling);
  BOOST_CHECK_EQUAL(sample_token(std::vector<real>{1, 3, 3, 2}, {.temperature = 0}, random), 1);
}

BOOST_AUTO_TEST_CASE(scores_of_any_size_are_fine) {
  RandomStream random(1, Purpose::sampling);
  const real infinity = std::numeric_limits<real>::infinity();
  BOOST_CHECK_EQUAL(sample_token(std::vector<real>{-3e38f, 3e38f}, {}, random), 1);
  BOOST_CHECK_EQUAL(sample_token(std::vector<real>{-infinity, 0}, {}, random), 1);
}

BOOST_AUTO_TEST_CASE(options_are_checked) {
  RandomStream random(1, Purpose::sampling);
  for (const SamplingOptions& bad : std::vector<SamplingOptions>{{.temperature = -1},
                                                                 {.temperature = INFINITY},
                                                                 {.temperature = NAN},
                                                                 {.top_k = -1},
                                                                 {.top_p = 0},
                                                                 {.top_p = 1.5},
                                                                 {.top_p = NAN},
                                                                 {.min_p = -0.1},
                                                                 {.min_p = 1.1},
                                                                 {.min_p = NAN},
                                                                 {.repetition_penalty = 0},
                                                                 {.repetition_penalty = -1},
                                                                 {.repetition_penalty = NAN},
                                                                 {.repetition_penalty = INFINITY}})
    BOOST_CHECK_THROW(sample_token(kScores, bad, random), ArgumentError);
  BOOST_CHECK_THROW(sample_token({}, {}, random), ShapeError);
}
