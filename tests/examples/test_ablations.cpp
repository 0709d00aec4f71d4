// The parts that ablations leaves out are left out, and its table has the means and deviations of what it measured.
// needs: programs: ablations
#include "ablations/model.h"
#include "support/matches.h"
#include "support/program.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/tools/attention_recorder.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>

using namespace test;
using ablations::kDigits;
using ablations::kLength;
using ablations::Parts;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> scores(const Parts& parts, const std::vector<int>& tokens) {
  seppo::tape().clear();
  const seppo::Inference inference;
  seppo::Parameters parameters(1);
  const ablations::Model model(parameters.root(), parts);
  const seppo::Tensor y = model(tokens, static_cast<int>(tokens.size()));
  std::vector<double> values(y.values().begin(), y.values().end());
  seppo::tape().clear();
  return values;
}

double difference(const std::vector<double>& a, const std::vector<double>& b, std::size_t first, std::size_t last) {
  double most = 0;
  for (std::size_t i = first; i < last; ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

const std::vector<int> kText{3, 1, 4, 1, 5, 9, 2, 6, 5};
std::vector<int> with_another_end() {
  std::vector<int> text = kText;
  text.back() = 8;
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_masks_hide) {
  const std::size_t early = 8 * kDigits;  // of the scores of the first eight positions, which come before the end
  for (const double masked : {-kInfinity, -1e9, -1e-9, 0.0}) {
    const Parts parts{.layers = 2, .masked_score = masked};
    const double seen = difference(scores(parts, kText), scores(parts, with_another_end()), 0, early);
    if (masked < -1)
      BOOST_CHECK_EQUAL(seen, 0);
    else
      BOOST_CHECK_GT(seen, 1e-3);
  }
  const auto of = [](double masked) { return scores({.layers = 2, .masked_score = masked}, kText); };
  BOOST_CHECK_SMALL(difference(of(-kInfinity), of(-1e9), 0, 9 * kDigits), 1e-5);
  BOOST_CHECK_SMALL(difference(of(-1e-9), of(0), 0, 9 * kDigits), 1e-5);
}

BOOST_AUTO_TEST_CASE(what_each_part_does) {
  const std::vector<double> whole = scores({}, kText);
  const auto differs = [&](const Parts& parts) {
    return difference(whole, scores(parts, kText), 0, whole.size()) > 1e-4;
  };
  BOOST_CHECK(differs({.residuals = false}));
  BOOST_CHECK(differs({.separate_keys = false}));
  BOOST_CHECK(differs({.divides_scores = false}));
  BOOST_CHECK(differs({.norm = ablations::WhichNorm::none}));
  BOOST_CHECK(differs({.norm = ablations::WhichNorm::batch}));
  BOOST_CHECK(differs({.heads = 4}));
  BOOST_CHECK(!differs({.attention_dropout = 0.5}));  // nothing is dropped outside of training
  // Without positions, the same digits in another order give the same scores in that order.
  const std::vector<double> a = scores({.positions = false}, {1, 2, 3}), b = scores({.positions = false}, {3, 1, 2});
  for (std::size_t i = 0; i < a.size(); ++i) BOOST_CHECK_SMALL(a[i] - b[(i + kDigits) % b.size()], 1e-5);
}

// The sharper softmax of scores that are not divided by the root of a head's width.
BOOST_AUTO_TEST_CASE(scores_are_divided_by_the_root_of_the_width) {
  seppo::Parameters first(1), second(1);  // equal ones
  const ablations::Block divided(first.root(), {.width = 16}),
      other(second.root(), {.width = 16, .divides_scores = false});
  const seppo::Inference inference;
  seppo::RandomStream random(1, seppo::Purpose::test);
  const seppo::Tensor x = seppo::randn({1, 5, 16}, random);
  std::vector<std::vector<seppo::real>> weights;
  for (const ablations::Block* block : {&divided, &other}) {
    seppo::AttentionRecorder recorder;
    const seppo::Observe scope(recorder);
    (*block)(x);
    weights.push_back(recorder.maps.at(0).weights);
  }
  // log w_i - log w_j is the difference of two scores, 4 times as large.
  for (std::size_t j = 1; j < 5; ++j) {
    const auto gap = [&](std::size_t which) { return std::log(double{weights[which][0]} / double{weights[which][j]}); };
    BOOST_CHECK_SMALL(gap(1) - 4 * gap(0), 1e-4 * (1 + std::abs(gap(1))));
  }
}

BOOST_AUTO_TEST_CASE(the_table) {
  const Folder folder("ablations");
  const Result r = folder.run({"ablations", "--steps", "2", "--seeds", "3", "--group", "masks", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK(r.out.starts_with("Digits that are right, in percent, in 640 new sequences of 16 digits"));
  BOOST_CHECK(r.out.find(" seed 0 seed 1 seed 2   mean  deviation\nmasks\n") != std::string::npos);
  const std::vector<Json> rows = last_line(r.out)["rows"].elements();
  BOOST_REQUIRE_EQUAL(rows.size(), 4u);
  for (const Json& row : rows) {
    const std::vector<double> p = row["percent"].numbers();
    BOOST_REQUIRE_EQUAL(p.size(), 3u);
    const double mean = (p[0] + p[1] + p[2]) / 3;
    const double squares = std::pow(p[0] - mean, 2) + std::pow(p[1] - mean, 2) + std::pow(p[2] - mean, 2);
    BOOST_CHECK_SMALL(row["mean"].number() - mean, 1e-9);
    BOOST_CHECK_SMALL(row["deviation"].number() - std::sqrt(squares / 2), 1e-9);
    BOOST_CHECK_MESSAGE(!matches(r.out, "\n" + row["what"].text() + " .* +[0-9.]+\n").empty(), row["what"].text());
  }
  const Result all = folder.run({"ablations", "--steps", "2", "--json"});
  BOOST_CHECK_EQUAL(all.out.find("deviation\n"), std::string::npos);  // of one seed there is none
  BOOST_CHECK_EQUAL(last_line(all.out)["rows"].size(), 31u);
}

BOOST_AUTO_TEST_CASE(options_that_cannot_be) {
  const Folder folder("ablations");
  check_refused(folder, {"ablations", "5"}, 2, "5");
  check_refused(folder, {"ablations", "--seeds", "0"}, 2, "--seeds");
  check_refused(folder, {"ablations", "--steps", "1"}, 2, "--steps");
  check_refused(folder, {"ablations", "--group", "none"}, 2, "--group");
  BOOST_CHECK(folder.run({"ablations", "-h"}).out.find("--seeds") != std::string::npos);
}

// A lesson that takes a second to learn: what is masked with 0 is not masked, and nothing is learned but to look it up.
BOOST_AUTO_TEST_CASE(a_mask_of_zero_does_not_mask, *boost::unit_test::precondition(test::ends_in_time)) {
  const auto learned = [](double masked) {
    return ablations::accuracy_of({.layers = 2, .masked_score = masked}, /*seed=*/0, /*steps=*/400);
  };
  BOOST_CHECK_GT(learned(-kInfinity), 0.8);
  BOOST_CHECK_LT(learned(0), 0.4);
}
