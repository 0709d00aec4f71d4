// Losses beside their rows in the table: limits, corners, weights.
// needs: precision: double; full: single; simd: avx2 plain
#include "support/errors.h"
#include "support/op_check.h"
#include "support/reference.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/ops/ctc_loss.h>

using namespace test;
namespace ref = test::reference;
using seppo::Reduction;

BOOST_AUTO_TEST_CASE(nll_loss_of_nothing_is_zero) {
  seppo::tape().clear();
  const Tensor x = seppo::variable({1, 2}, {1, 2});
  const Tensor none = seppo::nll_loss(x, std::vector<int>{7}, {.ignore_index = 7});
  BOOST_CHECK_EQUAL(none.item(), 0);
  seppo::tape().backward(none);
  BOOST_CHECK(x.grad()[0] == 0 && x.grad()[1] == 0);
}

BOOST_AUTO_TEST_CASE(cross_entropy_of_nothing_is_zero) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = seppo::variable({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor loss = seppo::cross_entropy(x, std::vector<int>{-1, -1}, {.ignore_index = -1});
  BOOST_CHECK_EQUAL(loss.item(), 0);
  t.backward(loss);
  for (const real g : x.grad()) BOOST_CHECK_EQUAL(g, 0);
  BOOST_CHECK_EQUAL(seppo::cross_entropy(seppo::zeros({0, 3}), std::vector<int>{}).item(), 0);
}

BOOST_AUTO_TEST_CASE(cross_entropy_ignores_a_shift_of_the_logits) {
  seppo::tape().clear();
  seppo::RandomStream random(5, seppo::Purpose::test);
  std::vector<double> a, b;
  for (int i = 0; i < 20; ++i) a.push_back(random.normal()), b.push_back(a.back() + 100);
  const std::vector<int> targets{0, 1, 2, 3};
  BOOST_CHECK_SMALL(double{seppo::cross_entropy(seppo::tensor({4, 5}, reals(a)), targets).item() -
                           seppo::cross_entropy(seppo::tensor({4, 5}, reals(b)), targets).item()},
                    kIsDouble ? 1e-12 : 3e-5);  // a shift of 100 costs two digits
}

BOOST_AUTO_TEST_CASE(nll_of_log_softmax_is_cross_entropy) {
  seppo::tape().clear();
  const Tensor x = seppo::tensor({2, 3}, reals(std::vector{0.3, -1.0, 2.0, 0.1, 0.2, 5.0}));
  const std::vector<int> targets{2, 0};
  BOOST_CHECK_CLOSE(seppo::nll_loss(seppo::log_softmax(x), targets).item(), seppo::cross_entropy(x, targets).item(),
                    1e-12);
}

BOOST_AUTO_TEST_CASE(weights_get_no_gradient_and_rows_of_weight_0_do_not_count) {
  seppo::tape().clear();
  const real infinity = std::numeric_limits<real>::infinity();
  const Tensor weight = seppo::variable({2}, {0, 3}), x = seppo::variable({2, 2}, {-infinity, 1, 2, 2});
  for (const double smoothing : {0.0, 0.5}) {
    const Tensor loss = seppo::cross_entropy(seppo::slice(x, 0, 1, 2), {1}, {smoothing, -1, Reduction::mean, weight}) +
                        seppo::cross_entropy(x, {0, 1}, {.weight = weight}) +
                        seppo::nll_loss(x, {0, 1}, {.weight = weight}) +
                        seppo::cross_entropy(x, x, {.reduction = Reduction::sum, .weight = weight});
    seppo::backward(loss);
    BOOST_CHECK_THROW(weight.grad(), seppo::StateError);
    const Tensor counted = seppo::cross_entropy(x, {0, 1}, {.weight = weight});
    BOOST_CHECK_CLOSE(double{counted.item()}, std::log(2), within(1e-12));
  }
  const Tensor log_p = seppo::variable({2, 2}, {-infinity, 1, 2, 2});
  const Tensor nll = seppo::nll_loss(log_p, {0, 1}, {.weight = weight});
  BOOST_CHECK_EQUAL(nll.item(), -2);
  seppo::backward(nll);
  BOOST_CHECK(std::ranges::equal(log_p.grad(), std::vector<real>{0, 0, 0, -1}));
  BOOST_CHECK_EQUAL(seppo::cross_entropy(x, {0, 0}, {.weight = weight}).item(), 0);
}

BOOST_AUTO_TEST_CASE(cross_entropy_with_probabilities) {
  seppo::tape().clear();  // one-hot rows give the same as class indices
  const Tensor x = seppo::tensor({2, 3}, reals(std::vector{0.3, -1.0, 2.0, 0.1, 0.2, 5.0}));
  BOOST_CHECK_CLOSE(seppo::cross_entropy(x, seppo::one_hot({2, 0}, 3)).item(), seppo::cross_entropy(x, {2, 0}).item(),
                    real(within(1e-12)));
}

// Of equal scores the lowest class wins; a row that is ignored is never correct, and may be of a class. Pieces change
// nothing.
BOOST_AUTO_TEST_CASE(linear_cross_entropy_counts_correct_rows) {
  for (const int ignored : {-1, 2})
    for (const int rows_at_once : {0, 1, 2}) {
      const std::vector<int> targets{1, 0, 1, 2, ignored};
      seppo::tape().clear();
      const Tensor x = seppo::tensor({5, 1}, {1, 1, -1, -1, -1}), weight = seppo::tensor({3, 1}, {2, 2, 1});
      double correct = -1;
      seppo::linear_cross_entropy(x, weight, targets,
                                  {.ignore_index = ignored, .rows_at_once = rows_at_once, .correct = &correct});
      BOOST_CHECK_EQUAL(correct, ignored < 0 ? 2 : 1);  // the second row, and the fourth if its class counts
    }
}

// However many rows there are, the scores of only some are in memory.
BOOST_AUTO_TEST_CASE(linear_cross_entropy_keeps_no_scores) {
  constexpr int kRows = 512, kClasses = 1000;
  const std::vector<int> targets(kRows, 7);
  const auto used = [&](int rows_at_once) {
    seppo::Tape own;
    const seppo::UseTape use(own);
    const Tensor x = seppo::variable({kRows, 2}, std::vector<real>(2 * kRows, 1));
    const Tensor weight = seppo::full({kClasses, 2}, 1);
    seppo::linear_cross_entropy(x, weight, targets, {.rows_at_once = rows_at_once});
    return own.arena().capacity();
  };
  BOOST_CHECK_GT(used(kRows), kRows * kClasses * sizeof(real));
  BOOST_CHECK_LT(used(8), kRows * kClasses * sizeof(real) / 8);
}

// Unless asked otherwise, 2^23 scores are computed at once, but at least 64 rows.
BOOST_AUTO_TEST_CASE(linear_cross_entropy_of_many_scores) {
  constexpr int kClasses = (1 << 17) + 1;
  std::vector<real> weights(kClasses);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<real>(i % 89) / 89;
  for (const int rows : {64, 65}) {
    std::vector<real> inputs;
    std::vector<int> targets;
    for (int row = 0; row < rows; ++row) {
      inputs.push_back(static_cast<real>(row % 7) / 4);
      targets.push_back(1000 * row);
    }
    double loss = 0, terms = 0;  // the scores of a row are 89 different ones
    std::vector<double> slopes;
    for (std::size_t row = 0; row < inputs.size(); ++row) {
      const double x{inputs[row]};
      double sum = 0, moved = 0;
      for (int class_ = 0; class_ < 89; ++class_) {
        const double w = double{static_cast<real>(class_)} / 89, count = kClasses / 89 + (class_ < kClasses % 89);
        sum += count * std::exp(x * w);
        moved += count * w * std::exp(x * w);
      }
      const double w = (targets[row] % 89) / 89.0;
      loss += std::log(sum) - x * w;
      terms += std::log(sum);
      slopes.push_back(moved / sum - w);
    }
    seppo::tape().clear();
    const Tensor x = seppo::variable({rows, 1}, inputs), weight = seppo::variable({kClasses, 1}, weights);
    const Tensor y = seppo::linear_cross_entropy(x, weight, targets);
    seppo::backward(y);
    BOOST_CHECK_SMALL(double{y.item()} - loss, test::within(1e-12) * terms);
    for (std::size_t row = 0; row < slopes.size(); ++row)
      BOOST_CHECK_SMALL(double{x.grad()[row]} - slopes[row], test::within(1e-12));
    double total = 0;  // the gradients of a row's scores add up to 0
    for (const real g : weight.grad()) total += double{g};
    BOOST_CHECK_SMALL(total, test::within(1e-10));
  }
  seppo::tape().clear();
}

BOOST_AUTO_TEST_CASE(huber_loss_at_its_corner) {
  seppo::tape().clear();  // at the corner, both sides have slope delta
  const Tensor x = seppo::variable({2}, {2, -2});
  seppo::backward(seppo::huber_loss(x, seppo::zeros({2}), 2, Reduction::sum));
  BOOST_CHECK(x.grad()[0] == 2 && x.grad()[1] == -2);
}

BOOST_AUTO_TEST_CASE(binary_cross_entropy_of_large_logits) {
  seppo::tape().clear();
  const Tensor x = seppo::variable({2}, {1000, -1000});
  const Tensor loss = seppo::binary_cross_entropy_with_logits(x, seppo::tensor({2}, {0, 1}));
  BOOST_CHECK_EQUAL(loss.item(), 1000);
  seppo::tape().backward(loss);
  BOOST_CHECK(x.grad()[0] == real{0.5} && x.grad()[1] == real{-0.5});
  const Tensor weighted =
      seppo::binary_cross_entropy_with_logits(x, seppo::tensor({2}, {0, 1}), {.pos_weight = seppo::full({2}, 3)});
  BOOST_CHECK_EQUAL(weighted.item(), (1000 + 3 * 1000) / 2);
}

// Of logits on the right side the loss is small, as is its slope, and neither is the difference of two large numbers.
BOOST_AUTO_TEST_CASE(binary_cross_entropy_of_confident_logits_keeps_its_digits) {
  for (const double size : {5.0, 15.0, 30.0}) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({2}, reals(std::vector{size, -size}));
    const Tensor loss =
        seppo::binary_cross_entropy_with_logits(x, seppo::tensor({2}, {1, 0}), {.reduction = Reduction::none});
    seppo::tape().backward(loss, reals(std::vector{1.0, -1.0}));
    for (std::size_t i = 0; i < 2; ++i) {
      BOOST_CHECK_CLOSE(double{loss.values()[i]}, std::log1p(std::exp(-size)), 1e-4);
      BOOST_CHECK_CLOSE(double{x.grad()[i]}, -1 / (1 + std::exp(size)), 1e-4);
    }
  }
}

BOOST_AUTO_TEST_CASE(cosine_similarity_with_zero) {
  seppo::tape().clear();
  const Tensor zero = seppo::variable({3}, {0, 0, 0}), one = seppo::variable({3}, {1, 2, 3});
  for (const double eps : {1e-8, 1e-30, 1e-200}) {  // the square of the last is no number but 0
    const Tensor y = seppo::cosine_similarity(zero, one, -1, eps);
    BOOST_CHECK_EQUAL(y.item(), 0);
    seppo::tape().backward(y);
    for (const double g : zero.grad()) BOOST_CHECK(std::isfinite(g));
  }
}

// Four frames say exactly one text, of two symbols at most four long.
BOOST_AUTO_TEST_CASE(the_probabilities_of_all_texts_are_one_in_all) {
  seppo::tape().clear();
  seppo::RandomStream random(3, seppo::Purpose::test);
  std::vector<double> scores;
  for (int i = 0; i < 4 * 3; ++i) scores.push_back(random.normal());
  const Tensor log_p = seppo::log_softmax(seppo::tensor({4, 1, 3}, reals(scores)));
  double sum = 0;
  std::vector<std::vector<int>> texts{{}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    sum += std::exp(-seppo::ctc_loss(log_p, {4}, {texts[i]}, {.reduction = Reduction::sum}).item());
    if (texts[i].size() == 4) continue;
    for (const int symbol : {1, 2}) {
      texts.push_back(texts[i]);
      texts.back().push_back(symbol);
    }
  }
  BOOST_CHECK_EQUAL(texts.size(), 31);
  BOOST_CHECK_SMALL(sum - 1, kIsDouble ? 1e-12 : 1e-5);
}

BOOST_AUTO_TEST_CASE(a_text_with_too_few_frames_has_no_gradient) {
  for (const std::vector<int>& text : {std::vector<int>{1, 2, 1, 2}, std::vector<int>{1, 1, 2}}) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({3, 1, 3}, reals(std::vector<double>(9, 0.5)));
    const Tensor loss = seppo::ctc_loss(seppo::log_softmax(x), {3}, {text});
    BOOST_CHECK_EQUAL(loss.item(), std::numeric_limits<double>::infinity());
    seppo::tape().backward(loss);
    for (const real g : x.grad()) BOOST_CHECK_EQUAL(g, 0);
  }
}

// Of the only way to say nothing, the probability is 2^-4000; that of a sequence's other frames does not count.
BOOST_AUTO_TEST_CASE(long_sequences_do_not_underflow_and_padding_does_not_count) {
  seppo::tape().clear();
  const int frames = 4001;
  std::vector<double> scores(2 * static_cast<std::size_t>(frames), std::log(0.5));
  scores.back() = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = seppo::variable({frames, 1, 2}, reals(scores));
  const Tensor loss = seppo::ctc_loss(x, {frames - 1}, {{}});
  BOOST_CHECK_CLOSE(loss.item(), 4000 * std::log(2), 1e-4);
  seppo::tape().backward(loss);
  const std::span<const real> grad = x.grad();
  for (std::size_t t = 0; t + 1 < static_cast<std::size_t>(frames); ++t) {
    BOOST_REQUIRE_CLOSE(double{grad[2 * t]}, -1, 1e-4);
    BOOST_REQUIRE_EQUAL(grad[2 * t + 1], 0);
  }
  BOOST_CHECK(grad[grad.size() - 2] == 0 && grad.back() == 0);
}

// Also one that comes to the text's end beside a finite number.
BOOST_AUTO_TEST_CASE(a_ctc_loss_does_not_hide_what_is_not_a_number) {
  for (const auto& [frame, symbol] : {std::pair{5, 2}, {5, 0}, {3, 1}, {3, 0}, {0, 1}}) {
    const Tensor log_p = seppo::full({6, 1, 3}, -1);
    log_p.data()[3 * frame + symbol] = std::nan("");
    const Tensor loss = seppo::ctc_loss(log_p, {6}, {{1, 2}}, {.reduction = Reduction::sum});
    BOOST_CHECK_MESSAGE(std::isnan(loss.item()), frame << " " << symbol << ": " << loss.item());
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_a_ctc_loss_is_named) {
  using seppo::IndexError;
  using test::check_error;
  const auto x = [] { return seppo::zeros({3, 2, 4}); };
  check_error<seppo::ShapeError>([&] { seppo::ctc_loss(x(), {3}, {{1}, {2}}); }, {"ctc_loss: 1 lengths", "[3,2,4]"});
  check_error<seppo::ShapeError>([&] { seppo::ctc_loss(x(), {3, 3}, {{1}}); }, {"ctc_loss: 1 texts", "[3,2,4]"});
  check_error<IndexError>([&] { seppo::ctc_loss(x(), {3, 4}, {{1}, {2}}); }, {"length 4 of sequence 1", "0..3"});
  check_error<IndexError>([&] { seppo::ctc_loss(x(), {3, 3}, {{1}, {2, 0}}); }, {"symbol 0 of text 1", "blank"});
  check_error<IndexError>([&] { seppo::ctc_loss(x(), {3, 3}, {{4}, {2}}); }, {"symbol 4 of text 0", "0..3"});
  check_error<IndexError>([&] { seppo::ctc_loss(x(), {3, 3}, {{1}, {2}}, {.blank = 4}); }, {"blank 4", "0..3"});
}
