// Drawing tokens: the right ones, as often as they should come.
#define BOOST_TEST_MODULE sampling
#include <seppo/autograd/core/check.h>
#include <seppo/models/decoding/sampling.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <vector>

using namespace seppo;

namespace {

// How often each token is drawn.
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
  // at temperature 1/2, by the squares
  const auto cold = shares(kScores, {.temperature = 0.5});
  const double squares = 0.01 + 0.16 + 0.09 + 0.04;
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_SMALL(cold[i] - expected[i] * expected[i] / squares, 0.015);
}

BOOST_AUTO_TEST_CASE(only_the_best_are_drawn) {
  const auto two = shares(kScores, {.top_k = 2});
  BOOST_CHECK(two[0] == 0 && two[3] == 0);
  BOOST_CHECK_SMALL(two[1] - 4.0 / 7, 0.015);
  const auto most = shares(kScores, {.top_p = 0.65});  // 0.4 is too little, 0.7 enough
  BOOST_CHECK(most[0] == 0 && most[3] == 0);
  BOOST_CHECK_SMALL(most[2] - 3.0 / 7, 0.015);
  const auto both = shares(kScores, {.top_k = 3, .top_p = 0.5});  // 4/9 of the three is too little
  BOOST_CHECK(both[0] == 0 && both[3] == 0 && both[1] > 0 && both[2] > 0);
  BOOST_CHECK_GT(shares(kScores, {.top_p = 1e-9})[1], 0.9999);
  BOOST_CHECK_GT(shares(kScores, {.top_k = 1})[1], 0.9999);
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
                                                                 {.top_p = NAN}})
    BOOST_CHECK_THROW(sample_token(kScores, bad, random), ArgumentError);
  BOOST_CHECK_THROW(sample_token({}, {}, random), ShapeError);
}
