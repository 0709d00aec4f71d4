// `addsub trace "I love you"`: the numbers follow from the vectors and weights that are shown.
// needs: programs: addsub
#include "addsub/trace_words.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cmath>

using namespace test;
using nlohmann::json;

namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix step(const json& traced, const std::string& title) {
  for (const json& step : traced["steps"]) {
    if (step["title"] != title) continue;
    Matrix rows(step["rows"].get<std::size_t>(), std::vector<double>(step["columns"].get<std::size_t>()));
    std::size_t at = 0;
    for (auto& row : rows)
      for (double& value : row) value = step["values"][at++];
    return rows;
  }
  BOOST_FAIL("there is no step " + title);
  return {};
}

// a b^T
Matrix times(const Matrix& a, const Matrix& b) {
  Matrix product(a.size(), std::vector<double>(b.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.size(); ++j)
      for (std::size_t k = 0; k < a[i].size(); ++k) product[i][j] += a[i][k] * b[j][k];
  return product;
}

void check_near(const Matrix& found, const Matrix& expected) {
  BOOST_REQUIRE_EQUAL(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    for (std::size_t j = 0; j < expected[i].size(); ++j) BOOST_CHECK_SMALL(found[i].at(j) - expected[i][j], 1e-6);
}

}  // namespace

BOOST_AUTO_TEST_CASE(attention_by_hand) {
  const Folder folder("trace_words");
  const Result r = folder.run({"addsub", "trace", "--json", "I love you I"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const json traced = json::parse(r.out);
  BOOST_CHECK_LE(traced["steps"].size(), 12u);
  const Matrix x = step(traced, "vectors");
  BOOST_CHECK(x[0] == x[3] && x[0] != x[1] && x[1] != x[2]);
  const Matrix q = times(x, step(traced, "weight of Q")), k = times(x, step(traced, "weight of K")),
               v = times(x, step(traced, "weight of V"));
  check_near(step(traced, "Q"), q);
  check_near(step(traced, "K"), k);
  check_near(step(traced, "V"), v);
  Matrix scores = times(q, k);
  check_near(step(traced, "Q Kᵀ"), scores);
  for (auto& row : scores)
    for (double& score : row) score /= std::sqrt(3.0);
  check_near(step(traced, "divided by √d"), scores);
  Matrix mixture(x.size(), std::vector<double>(3));
  for (std::size_t i = 0; i < x.size(); ++i) {
    double sum = 0;
    for (double& score : scores[i]) sum += score = std::exp(score);
    for (double& share : scores[i]) share /= sum;
    for (std::size_t j = 0; j < x.size(); ++j)
      for (std::size_t c = 0; c < 3; ++c) mixture[i][c] += scores[i][j] * v[j][c];
  }
  check_near(step(traced, "softmax"), scores);
  check_near(step(traced, "mixture of V"), mixture);
}

BOOST_AUTO_TEST_CASE(as_text) {
  const Folder folder("trace_words");
  const Result r = folder.run({"addsub", "trace", "I love you"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  for (const char* part : {"vectors", "weight of K", "Q Kᵀ", "divided by √d", "softmax", "mixture of V", "love"})
    BOOST_CHECK_MESSAGE(r.out.find(part) != std::string::npos, part);
  BOOST_CHECK(folder.empty());
  for (const Words& option : {Words{"--layer", "1"}, {"--head", "1"}, {"--all"}, {"--gradients"}})
    check_refused(folder, with(with({"addsub", "trace"}, option), {"I love you"}), 2,
                  option[0] + ": is for expressions");
  check_refused(folder, {"addsub", "trace", "a b c d e f g h i"}, 1, "'i': there are vectors for 8 different words");
}

BOOST_AUTO_TEST_CASE(expressions_are_no_words) {
  for (const char* text : {"48 - 27", "48-27", "BOS POSITIVE 3 EOS", "add", "", "I love 2"})
    BOOST_CHECK_MESSAGE(!addsub::is_words(text), text);
  for (const char* text : {"I love you", "größte Liebe", "one"}) BOOST_CHECK_MESSAGE(addsub::is_words(text), text);
}
