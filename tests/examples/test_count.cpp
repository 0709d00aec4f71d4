// Questions about whole sequences: their answers, the pooling, and the program as a user runs it.
// needs: programs: count
#define BOOST_TEST_MODULE count
#include "count/model.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

using namespace test;
using seppo::Tensor;

namespace {

constexpr examples::Pooling kPoolings[] = {examples::Pooling::class_token, examples::Pooling::mean,
                                           examples::Pooling::max};

count::Model tiny(seppo::Parameters& parameters, examples::Pooling pooling, examples::Positions positions) {
  return {parameters.root(),
          {.layer = {.d_model = 8, .n_heads = 2, .d_ff = 8, .dropout = 0},
           .n_layers = 2,
           .positions = positions,
           .pooling = pooling}};
}

std::vector<seppo::real> scores(const count::Model& model, const seppo::Ragged& sequences) {
  const seppo::UseMode eval(seppo::Mode::eval);
  const seppo::TapeMark mark;
  const auto values = model(sequences).values();
  return {values.begin(), values.end()};
}

seppo::Ragged ragged(const std::vector<std::vector<int>>& sequences) {
  seppo::Ragged result;
  for (const auto& sequence : sequences) result.add(sequence);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(right_answers) {
  const std::vector<int> symbols{3, 0, 15, 0, 3, 7, 3};
  BOOST_CHECK_EQUAL(count::right_answer(count::Question::zeros, symbols), 2);
  BOOST_CHECK_EQUAL(count::right_answer(count::Question::largest, symbols), 15);
  BOOST_CHECK_EQUAL(count::right_answer(count::Question::most_frequent, symbols), 3);
  BOOST_CHECK_EQUAL(count::right_answer(count::Question::most_frequent, std::vector<int>{9, 4, 4, 9}), 4);
  BOOST_CHECK_EQUAL(count::classes(count::Question::zeros), 17);
}

BOOST_AUTO_TEST_CASE(pooling_of_ragged_rows) {
  const seppo::TapeMark mark;
  const Tensor x = seppo::tensor({4, 2}, {1, -8, 3, 5, 2, 6, 0, 1});
  const std::vector<int> rows{0, 1, 4};
  const auto pooled = [&](examples::Pooling pooling) {
    const auto values = examples::pool(x, rows, pooling).values();
    return std::vector<seppo::real>(values.begin(), values.end());
  };
  BOOST_TEST(pooled(examples::Pooling::class_token) == (std::vector<seppo::real>{1, -8, 3, 5}));
  BOOST_TEST(pooled(examples::Pooling::max) == (std::vector<seppo::real>{1, -8, 3, 6}));
  BOOST_TEST(pooled(examples::Pooling::mean) == (std::vector<seppo::real>{1, -8, seppo::real(5) / 3, 4}));
  BOOST_CHECK_THROW(examples::pool(x, std::vector<int>{0, 2, 2, 4}, examples::Pooling::mean), seppo::ShapeError);
}

BOOST_AUTO_TEST_CASE(an_answer_depends_on_its_own_sequence_only) {
  for (const examples::Pooling pooling : kPoolings) {
    seppo::Parameters parameters(1);
    const count::Model model = tiny(parameters, pooling, examples::Positions::sinusoid);
    const std::vector<std::vector<int>> sequences{{1, 2, 3}, {4}, {5, 0, 0, 7, 9}};
    const auto together = scores(model, ragged(sequences));
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const auto alone = scores(model, ragged({sequences[s]}));
      for (std::size_t j = 0; j < alone.size(); ++j) BOOST_CHECK_SMALL(alone[j] - together[s * 17 + j], 1e-5f);
    }
  }
}

// The order of the symbols matters only with positional encodings.
BOOST_AUTO_TEST_CASE(order_matters_by_positions_only) {
  for (const examples::Pooling pooling : kPoolings)
    for (const auto positions :
         {examples::Positions::none, examples::Positions::sinusoid, examples::Positions::binary}) {
      seppo::Parameters parameters(2);
      const count::Model model = tiny(parameters, pooling, positions);
      const auto a = scores(model, ragged({{1, 2, 3, 3, 9}})), b = scores(model, ragged({{3, 9, 1, 3, 2}}));
      seppo::real difference = 0;
      for (std::size_t j = 0; j < a.size(); ++j) difference = std::max(difference, std::abs(a[j] - b[j]));
      if (positions == examples::Positions::none)
        BOOST_CHECK_SMALL(difference, 1e-5f);
      else
        BOOST_CHECK_GT(difference, 1e-3f);
    }
}

BOOST_AUTO_TEST_CASE(every_pooling_learns_to_count, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("count");
  for (const std::string pooling : {"class-token", "mean", "max"}) {
    const Result r = folder.run({"count", "train", "--pooling", pooling, "--max-steps", "780", "--epochs", "3",
                                 "--log-format", "none", "--json", "--seed", "4", "--overwrite"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    BOOST_CHECK_MESSAGE(last_line(r.out)["test_accuracy"].get<double>() > 0.97, pooling << ": " << r.out);
  }
  const Result p =
      folder.run({"count", "predict"}, "1 3 0 15 2 6 1 1 9 4 0 8 12 11 5 7\n1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 1\n");
  BOOST_CHECK_EQUAL(p.out, "2\n0\n");
  BOOST_CHECK_EQUAL(p.err, "");
  // Inputs unlike the training data are answered, but with a warning.
  const Result odd = folder.run({"count", "predict", "0 0", "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"}, "");
  BOOST_CHECK(odd.err.find("trained on 16 symbols; this sequence has 2") != std::string::npos);
  BOOST_CHECK_MESSAGE(
      odd.out.find("wrong: it is 16") != std::string::npos || odd.out.find("\n16\n") != std::string::npos, odd.out);
  for (const char* bad : {"", "16", "1 x", "1,2", "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"})
    check_refused(folder, {"count", "predict", bad}, 1, "sequence");
  check_refused(folder, {"count", "predict", ""}, 1, "sequence '' has 0 symbols, not 1 to 16");
  check_refused(folder, {"count", "predict", "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"}, 1, "has 17 symbols, not 1 to 16");
  check_refused(folder, {"count", "train", "--pooling", "sum"}, 2, "--pooling");
  check_refused(folder, {"count", "train", "--question", "why"}, 2, "--question");
}
