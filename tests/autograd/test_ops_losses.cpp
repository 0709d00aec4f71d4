// Losses.
// needs: precision: double; full: single; simd: avx2 plain
#define BOOST_TEST_MODULE ops_losses
#include "support/op_check.h"
#include "support/reference.h"

using namespace test;
namespace ref = test::reference;
using seppo::Reduction;

BOOST_AUTO_TEST_CASE(nll_loss) {
  const std::vector<int> targets{1, 0, 3, 3, 2, 0};
  for (const int ignored : {-100, 3, 0})
    for (const bool mean : {true, false})
      for (const Shape& shape : {Shape{6, 4}, Shape{2, 3, 4}})
        check_op(
            "nll_loss", {shape},
            [&](Inputs x) {
              return seppo::nll_loss(x[0], targets, {ignored, mean ? Reduction::mean : Reduction::sum});
            },
            [&](const auto& x) {
              auto y = x[0];
              y.shape = {};
              y.v.assign(1, 0.0);
              double count = 0;
              for (std::size_t i = 0; i < targets.size(); ++i) {
                if (targets[i] == ignored) continue;
                y.v[0] -= x[0].v[i * 4 + static_cast<std::size_t>(targets[i])];
                ++count;
              }
              if (mean) y.v[0] /= count;
              return y;
            });
  // with all targets ignored, the loss is 0, and so are the gradients
  seppo::tape().clear();
  const Tensor x = seppo::variable({1, 2}, {1, 2});
  const Tensor none = seppo::nll_loss(x, std::vector<int>{7}, {.ignore_index = 7});
  BOOST_CHECK_EQUAL(none.item(), 0);
  seppo::tape().backward(none);
  BOOST_CHECK(x.grad()[0] == 0 && x.grad()[1] == 0);
}

BOOST_AUTO_TEST_CASE(nll_of_log_softmax_is_cross_entropy) {
  seppo::tape().clear();
  const Tensor x = seppo::tensor({2, 3}, reals(std::vector{0.3, -1.0, 2.0, 0.1, 0.2, 5.0}));
  const std::vector<int> targets{2, 0};
  BOOST_CHECK_CLOSE(seppo::nll_loss(seppo::log_softmax(x), targets).item(), seppo::cross_entropy(x, targets).item(),
                    1e-12);
}

namespace {

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

// Reduces the losses of rows or elements; the mean divides by `count`.
template <class T>
Nd<T> reduced(Nd<T> losses, Reduction reduction, double count) {
  if (reduction == Reduction::none) return losses;
  Nd<T> y{std::vector<int>{}};
  for (const T& loss : losses.v) y.v[0] += reduction == Reduction::mean ? loss / count : loss;
  return y;
}
template <class T>
Nd<T> reduced(const Nd<T>& losses, Reduction reduction) {
  return reduced(losses, reduction, static_cast<double>(losses.v.size()));
}

// -sum_j w_j p(row, j) log softmax(x)_j for each row; x itself is log p unless it is logits
template <class T, class F>
Nd<T> row_losses(const Nd<T>& x, const std::vector<double>& w, bool is_logits, const F& p) {
  Nd<T> y({x.shape.begin(), x.shape.end() - 1});
  const std::size_t classes = w.size();
  for (std::size_t i = 0; i < y.v.size(); ++i) {
    T total = 0;
    for (std::size_t j = 0; j < classes; ++j) total += std::exp(x.v[i * classes + j]);
    for (std::size_t j = 0; j < classes; ++j)
      y.v[i] -= w[j] * p(i, j) * (is_logits ? x.v[i * classes + j] - std::log(total) : x.v[i * classes + j]);
  }
  return y;
}

const std::vector<double> kWeights{0.5, 2, 0.1, 1.3}, kEven(4, 1.0);

}  // namespace

BOOST_AUTO_TEST_CASE(weighted_classes) {
  const std::vector<int> targets{1, 0, 3, 3, 2, 0};
  for (const bool is_logits : {true, false})
    for (const double smoothing : is_logits ? std::vector<double>{0, 0.3, 1} : std::vector<double>{0})
      for (const bool weighted : {false, true})
        for (const int ignored : {-100, 3})
          for (const Reduction reduction : kReductions)
            for (const Shape& shape : {Shape{6, 4}, Shape{2, 3, 4}}) {
              const std::vector<double>& w = weighted ? kWeights : kEven;
              double count = 0;
              for (const int t : targets) count += t == ignored ? 0 : w[static_cast<std::size_t>(t)];
              check_op(
                  is_logits ? "cross_entropy" : "nll_loss", {shape},
                  [&](Inputs x) {
                    const Tensor weight = weighted ? seppo::tensor({4}, reals(w)) : Tensor();
                    if (!is_logits) return seppo::nll_loss(x[0], targets, {ignored, reduction, weight});
                    return seppo::cross_entropy(x[0], targets, {smoothing, ignored, reduction, weight});
                  },
                  [&](const auto& x) {
                    const auto p = [&](std::size_t row, std::size_t j) {
                      if (targets[row] == ignored) return 0.0;
                      return (static_cast<int>(j) == targets[row] ? 1 - smoothing : 0) + smoothing / 4;
                    };
                    return reduced(row_losses(x[0], w, is_logits, p), reduction, count);
                  });
            }
  const std::vector<int> one{2};
  check_op(  // a vector is a single row
      "cross_entropy", {{4}}, [&](Inputs x) { return seppo::cross_entropy(x[0], one, {.reduction = Reduction::none}); },
      [&](const auto& x) {
        return row_losses(x[0], kEven, true, [](std::size_t, std::size_t j) { return j == 2 ? 1.0 : 0.0; });
      });
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
  BOOST_CHECK_EQUAL(seppo::cross_entropy(x, {0, 0}, {.weight = weight}).item(), 0);
}

BOOST_AUTO_TEST_CASE(cross_entropy_with_probabilities) {
  for (const double smoothing : {0.0, 0.3})
    for (const bool weighted : {false, true})
      for (const Reduction reduction : kReductions)
        for (const Shape& shape : {Shape{4}, Shape{6, 4}, Shape{2, 3, 4}}) {
          const std::vector<double>& w = weighted ? kWeights : kEven;
          check_op(
              "cross_entropy of probabilities", {shape, shape},
              [&](Inputs x) {
                return seppo::cross_entropy(x[0], x[1],
                                            {.label_smoothing = smoothing,
                                             .reduction = reduction,
                                             .weight = weighted ? seppo::tensor({4}, reals(w)) : Tensor()});
              },
              [&](const auto& x) {
                return reduced(row_losses(x[0], w, true,
                                          [&](std::size_t i, std::size_t j) {
                                            return (1 - smoothing) * x[1].v[i * 4 + j] + smoothing / 4;
                                          }),
                               reduction);
              });
        }
  seppo::tape().clear();  // one-hot rows give the same as class indices
  const Tensor x = seppo::tensor({2, 3}, reals(std::vector{0.3, -1.0, 2.0, 0.1, 0.2, 5.0}));
  BOOST_CHECK_CLOSE(seppo::cross_entropy(x, seppo::one_hot({2, 0}, 3)).item(), seppo::cross_entropy(x, {2, 0}).item(),
                    real(within(1e-12)));
}

BOOST_AUTO_TEST_CASE(mse_loss) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{2, 1, 3}})
    for (const Reduction reduction : kReductions)
      check_op(
          "mse_loss", {shape, shape}, [=](Inputs x) { return seppo::mse_loss(x[0], x[1], reduction); },
          [=](const auto& x) {
            return reduced(ref::zip(x[0], x[1], [](auto a, auto b) { return (a - b) * (a - b); }), reduction);
          });
}

BOOST_AUTO_TEST_CASE(huber_loss) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{2, 1, 30}})
    for (const double delta : {1.0, 0.4})
      for (const Reduction reduction : kReductions)
        check_op(
            "huber_loss", {shape, shape}, [=](Inputs x) { return seppo::huber_loss(x[0], x[1], delta, reduction); },
            [=](const auto& x) {
              const auto loss = [=](auto a, auto b) {
                const auto d = real_part(a) < real_part(b) ? b - a : a - b;
                return real_part(d) < delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
              };
              return reduced(ref::zip(x[0], x[1], loss), reduction);
            });
  seppo::tape().clear();  // at the corner, both sides have slope delta
  const Tensor x = seppo::variable({2}, {2, -2});
  seppo::backward(seppo::huber_loss(x, seppo::zeros({2}), 2, Reduction::sum));
  BOOST_CHECK(x.grad()[0] == 2 && x.grad()[1] == -2);
}

BOOST_AUTO_TEST_CASE(binary_cross_entropy_with_logits) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}})
    for (const int weights : {0, 1, 2, 3})
      for (const Reduction reduction : kReductions) {
        const int n = shape.cols();
        std::vector<double> weight(static_cast<std::size_t>(n)), positive = weight;
        for (std::size_t i = 0; i < weight.size(); ++i)
          weight[i] = 0.5 + 0.3 * static_cast<double>(i), positive[i] = 2 - 0.4 * static_cast<double>(i);
        check_op(
            "binary_cross_entropy_with_logits", {shape, shape},
            [&](Inputs x) {
              const Shape one = shape.rank() == 0 ? shape : Shape{n};
              seppo::BinaryCrossEntropyOptions options{.reduction = reduction};
              if (weights & 1) options.weight = seppo::tensor(one, reals(weight));
              if (weights & 2) options.pos_weight = seppo::tensor(one, reals(positive));
              return seppo::binary_cross_entropy_with_logits(x[0], x[1], options);
            },
            [&](const auto& x) {
              auto losses = x[0];
              for (std::size_t i = 0; i < losses.v.size(); ++i) {
                const std::size_t j = i % weight.size();
                const auto s = 1.0 / (1.0 + std::exp(-x[0].v[i])), t = x[1].v[i];
                losses.v[i] = (weights & 1 ? weight[j] : 1) *
                              (-(weights & 2 ? positive[j] : 1) * t * std::log(s) - (1.0 - t) * std::log(1.0 - s));
              }
              return reduced(losses, reduction);
            });
      }
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

BOOST_AUTO_TEST_CASE(cosine_similarity) {
  for (const Shape& shape : {Shape{4}, Shape{3, 4}, Shape{2, 3, 4}})
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis)
      check_op(
          "cosine_similarity", {shape, shape}, [=](Inputs x) { return seppo::cosine_similarity(x[0], x[1], axis); },
          [=](const auto& x) {
            const auto sum = [&](const auto& v) {
              return ref::reduce(v, {shape.axis(axis)}, false, [](const auto& row) {
                auto t = row[0] * 0.0;
                for (const auto& e : row) t += e;
                return t;
              });
            };
            const auto product = [](auto a, auto b) { return a * b; };
            const auto squares =
                ref::zip(sum(ref::zip(x[0], x[0], product)), sum(ref::zip(x[1], x[1], product)), product);
            return ref::zip(sum(ref::zip(x[0], x[1], product)), squares,
                            [](auto dot, auto s) { return dot / std::sqrt(s); });
          });
  seppo::tape().clear();
  const Tensor zero = seppo::variable({3}, {0, 0, 0}), one = seppo::variable({3}, {1, 2, 3});
  for (const double eps : {1e-8, 1e-30, 1e-200}) {  // the square of the last is no number but 0
    const Tensor y = seppo::cosine_similarity(zero, one, -1, eps);
    BOOST_CHECK_EQUAL(y.item(), 0);
    seppo::tape().backward(y);
    for (const double g : zero.grad()) BOOST_CHECK(std::isfinite(g));
  }
}

namespace {

// x [2, 4, 3] with its classes last, [2, 3, 4].
template <class T>
Nd<T> classes_last(const Nd<T>& x) {
  return ref::pick(x, {2, 3, 4}, [](const std::vector<int>& at) { return std::vector<int>{at[0], at[2], at[1]}; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(classes_on_another_axis) {
  const std::vector<int> targets{1, 0, 3, 3, 2, 0};
  for (const int axis : {1, -2})
    for (const Reduction reduction : kReductions)
      for (const bool is_logits : {true, false}) {
        double count = 0;
        for (const int t : targets) count += kWeights[static_cast<std::size_t>(t)];
        check_op(
            "classes on axis 1", {{2, 4, 3}},
            [&](Inputs x) {
              const Tensor weight = seppo::tensor({4}, reals(kWeights));
              return is_logits
                         ? seppo::cross_entropy(x[0], targets, {.reduction = reduction, .weight = weight, .axis = axis})
                         : seppo::nll_loss(x[0], targets, {.reduction = reduction, .weight = weight, .axis = axis});
            },
            [&](const auto& x) {
              const auto p = [&](std::size_t row, std::size_t j) {
                return static_cast<int>(j) == targets[row] ? 1.0 : 0.0;
              };
              return reduced(row_losses(classes_last(x[0]), kWeights, is_logits, p), reduction, count);
            });
        if (!is_logits) continue;
        check_op(
            "probabilities on axis 1", {{2, 4, 3}, {2, 4, 3}},
            [&](Inputs x) { return seppo::cross_entropy(x[0], x[1], {.reduction = reduction, .axis = axis}); },
            [&](const auto& x) {
              const auto p = classes_last(x[1]);
              return reduced(row_losses(classes_last(x[0]), kEven, true,
                                        [&](std::size_t row, std::size_t j) { return p.v[row * 4 + j]; }),
                             reduction);
            });
      }
}
