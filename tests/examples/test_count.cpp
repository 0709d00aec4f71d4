// Questions about whole sequences: their answers, the pooling, and the program as a user runs it.
// needs: programs: count
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

// The loss of one sequence, from its scores.
double plain_loss(count::Loss kind, std::span<const seppo::real> scores, int right) {
  double sum = 0, loss = 0;
  for (std::size_t c = 0; c < scores.size(); ++c) {
    const double score = double(scores[c]), probability = 1 / (1 + std::exp(-score));
    sum += std::exp(score);
    loss -= std::log(int(c) == right ? probability : 1 - probability);
  }
  switch (kind) {
    case count::Loss::ce:
      return std::log(sum) - double(scores[std::size_t(right)]);
    case count::Loss::bce:
      return loss;
    case count::Loss::mse:
      return (double(scores[0]) - right) * (double(scores[0]) - right);
  }
  return 0;
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

BOOST_AUTO_TEST_CASE(losses_are_their_formulas) {
  const std::vector<std::vector<int>> sequences{{1, 2, 3}, {4, 0, 0}, {5, 0, 0, 7, 9}};
  const std::vector<int> zeros{0, 2, 2};
  for (const count::Loss kind : {count::Loss::ce, count::Loss::bce, count::Loss::mse}) {
    seppo::Parameters parameters(5);
    const count::Model model(parameters.root(), {.loss = kind});
    const std::vector<seppo::real> all = scores(model, ragged(sequences));
    const std::size_t width = kind == count::Loss::mse ? 1 : 17;
    BOOST_REQUIRE_EQUAL(all.size(), 3 * width);
    double expected = 0;
    for (std::size_t s = 0; s < 3; ++s)
      expected += plain_loss(kind, std::span(all).subspan(s * width, width), zeros[s]);
    const seppo::TapeMark mark;
    const seppo::ShardLoss loss = count::loss(model, ragged(sequences));
    BOOST_CHECK_CLOSE(double(loss.loss.item()), expected, 1e-3);
    BOOST_CHECK_EQUAL(double(loss.count), 3);
  }
}

BOOST_AUTO_TEST_CASE(answers_are_the_largest_score_or_the_nearest_integer) {
  const auto answers = [](count::Loss loss, const seppo::Shape& shape, const std::vector<seppo::real>& scores) {
    seppo::Parameters parameters(6);
    const seppo::TapeMark mark;
    return count::Model(parameters.root(), {.loss = loss}).answers(seppo::tensor(shape, scores));
  };
  const std::vector<int> second{1, 0};
  BOOST_TEST(answers(count::Loss::ce, {2, 3}, {-9, -1, -5, 4, 3, 2}) == second);
  BOOST_TEST(answers(count::Loss::bce, {2, 3}, {-9, -1, -5, 4, 3, 2}) == second);
  BOOST_TEST(answers(count::Loss::mse, {4, 1}, {1.4921875, 1.5078125, -0.1875, 16}) == (std::vector<int>{1, 2, 0, 16}));
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

BOOST_AUTO_TEST_CASE(every_loss_learns_to_count, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("count");
  for (const std::string loss : {"bce", "mse"}) {
    const Result r = folder.run({"count", "train", "--loss", loss, "--max-steps", "780", "--epochs", "3", "--report",
                                 "--log-format", "none", "--json", "--seed", "4", "--overwrite"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    BOOST_CHECK_MESSAGE(last_line(r.out)["test_accuracy"].get<double>() > 0.97, loss << ": " << r.out);
    BOOST_CHECK(Json::parse(read(folder.path / "runs/count/config.json"))["model"]["loss"] == loss);
    const Result p = folder.run({"count", "predict"}, "1 3 0 15 2 6 1 1 9 4 0 8 12 11 5 7\n");
    BOOST_CHECK_EQUAL(p.out, "2\n");
    const Result e = folder.run({"count", "eval", "--json"});
    BOOST_CHECK_EQUAL(last_line(e.out)["test_accuracy"].get<double>(), last_line(r.out)["test_accuracy"].get<double>());
  }
  check_refused(folder, {"count", "train", "--loss", "mae"}, 2, "--loss");
}
