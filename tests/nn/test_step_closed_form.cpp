// The results of a training step against its closed form, in both precisions. Losses are linear in the parameters or a
// softmax of a linear function, so that gradients are known, and a step follows papers and headers: means over the
// count, clipping by the norm of the mean, Adam with both bias corrections, groups, averages, schedules.
// needs: precision: double; full: single
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

using namespace seppo;

namespace {

using Values = std::vector<double>;
constexpr bool kIsDouble = sizeof(real) == 8;
constexpr double kTolerance = kIsDouble ? 1e-12 : 2e-6;

void check_close(double found, double expected, const std::string& what, double tolerance = kTolerance) {
  BOOST_CHECK_MESSAGE(std::abs(found - expected) <= tolerance * std::max(1.0, std::abs(expected)),
                      what << ": " << found << ", expected " << expected << ", off by " << found - expected);
}
void check_close(std::span<const real> found, const Values& expected, const std::string& what) {
  BOOST_REQUIRE_EQUAL(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    check_close(static_cast<double>(found[i]), expected[i], what + " [" + std::to_string(i) + "]");
}

double uniform(RandomStream& random, double low, double high) { return low + (high - low) * random.uniform(); }
std::size_t below(RandomStream& random, std::uint32_t n) { return random.below(n); }
template <class T>
T one_of(RandomStream& random, std::initializer_list<T> choices) {
  return std::data(choices)[below(random, static_cast<std::uint32_t>(choices.size()))];
}
// Numbers of so few digits that sums are exact in either precision.
double eighths(RandomStream& random) { return (static_cast<double>(random.below(65)) - 32) / 8; }

// The learning rate of a step, case by case.
double rate(ScheduleKind kind, double lr, double min_lr, double warmup, double steps, double step) {
  if (kind == ScheduleKind::noam) return step < warmup ? lr * step / warmup : lr * std::sqrt(warmup / step);
  if (step < warmup) return lr * step / warmup;
  if (kind == ScheduleKind::constant || steps <= warmup) return lr;  // no decay if warm-up takes all steps
  if (step >= steps) return min_lr;
  const double fallen = (step - warmup) / (steps - warmup);
  if (kind == ScheduleKind::linear) return lr * (1 - fallen) + min_lr * fallen;
  return min_lr + (lr - min_lr) * std::pow(std::cos(std::numbers::pi / 2 * fallen), 2);
}

// Sums over the examples of a batch.
struct Sums {
  double loss = 0, count = 0, correct = 0;
  Values gradient;
};

// Training by definition, element by element from the gradients of all steps: Kingma and Ba 2015, Loshchilov and
// Hutter 2019.
struct Definition {
  TrainerConfig c;
  Values w, lr_factor, decay;
  std::vector<Values> gradients = {}, earlier = {};  // as Adam sees them; the parameters after each step
  StepResult last = {};

  void step(const Sums& sums) {
    const auto t = static_cast<double>(++last.step);
    double squares = 0;
    for (const double g : sums.gradient) squares += g / sums.count * g / sums.count;
    last.loss = sums.loss / sums.count;
    last.accuracy = sums.correct / sums.count;
    last.gradient_norm = std::sqrt(squares);
    last.lr = rate(c.schedule, c.lr, c.min_lr, c.warmup_steps, static_cast<double>(c.steps), t);
    const bool is_clipped = c.clip_norm > 0 && last.gradient_norm > c.clip_norm;
    gradients.push_back(sums.gradient);
    for (std::size_t i = 0; i < w.size(); ++i) {
      double& g = gradients.back()[i];
      g *= (is_clipped ? c.clip_norm / last.gradient_norm : 1) / sums.count;
      if (!c.adam.decoupled) g += decay[i] * w[i];
      double m = 0, v = 0, m_weights = 0, v_weights = 0;  // weighted means, which need no bias correction
      for (std::size_t k = 0; k < gradients.size(); ++k) {
        const double age = static_cast<double>(gradients.size() - 1 - k), past = gradients[k][i];
        m += std::pow(c.adam.betas[0], age) * past;
        m_weights += std::pow(c.adam.betas[0], age);
        v += std::pow(c.adam.betas[1], age) * past * past;
        v_weights += std::pow(c.adam.betas[1], age);
      }
      const double move = m / m_weights / (std::sqrt(v / v_weights) + c.adam.eps);
      w[i] -= last.lr * lr_factor[i] * (move + (c.adam.decoupled ? decay[i] * w[i] : 0));
    }
    earlier.push_back(w);
  }
  Values averages() const {
    Values mean(w.size());
    double weights = 0;
    for (std::size_t k = 0; k < earlier.size(); ++k) {
      const double weight = std::pow(c.ema_decay, static_cast<double>(earlier.size() - 1 - k));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += weight * earlier[k][i];
      weights += weight;
    }
    for (double& x : mean) x /= weights;
    return mean;
  }
};

void check_result(const StepResult& found, const StepResult& expected, const std::string& what) {
  BOOST_CHECK_EQUAL(found.step, expected.step);
  BOOST_CHECK(!found.is_skipped);
  check_close(found.loss, expected.loss, what + " loss", kIsDouble ? 1e-12 : 2e-5);
  check_close(found.accuracy, expected.accuracy, what + " accuracy", 1e-12);
  check_close(found.gradient_norm, expected.gradient_norm, what + " norm");
  check_close(found.lr, expected.lr, what + " lr", 1e-13);
}

constexpr std::size_t kRows = 31;

// Parameters of all kinds: matrices, which decay, and vectors; groups; a frozen one; a buffer. The loss of an example
// is the dot product of its coefficients with all of them.
struct LinearLoss {
  Parameters parameters{1};
  std::vector<Tensor> tensors;
  std::vector<Values> coefficients;  // [example][value]
  Values counts;

  explicit LinearLoss(RandomStream& random) {
    const auto add = [&](const char* name, const Shape& shape) {
      tensors.push_back(parameters.root().parameter(name, shape, init_normal(1)));
    };
    add("body.w", {3, 4}), add("body.b", {4}), add("head.w", {4, 2}), add("head.b", {2}), add("ice.w", {2, 3});
    tensors.push_back(parameters.root().buffer("seen", {3}, init_normal(1)));
    parameters.freeze("ice.");
    for (std::size_t row = 0; row < kRows; ++row) {
      coefficients.emplace_back();
      for (std::size_t i = 0; i < size(); ++i) coefficients.back().push_back(eighths(random));
      counts.push_back(static_cast<double>(below(random, 6)));
    }
    counts[0] = 3;
  }
  std::size_t size() const {
    std::size_t all = 0;
    for (const auto& entry : parameters.entries()) all += entry.size();
    return all;
  }
  std::vector<real> values() const {
    std::vector<real> all;
    for (const Tensor& t : tensors) all.insert(all.end(), t.values().begin(), t.values().end());
    return all;
  }
  static double correct(int row) { return row % 3; }

  ShardLoss loss(std::span<const int> rows) const {
    ShardLoss result;
    std::size_t first = 0;
    for (const Tensor& t : tensors) {
      std::vector<real> sums(static_cast<std::size_t>(t.numel()));
      for (const int row : rows)
        for (std::size_t i = 0; i < sums.size(); ++i)
          sums[i] += static_cast<real>(coefficients[static_cast<std::size_t>(row)][first + i]);
      const Tensor part = sum(t * tensor(t.shape(), sums));
      result.loss = first == 0 ? part : result.loss + part;
      first += sums.size();
    }
    for (const int row : rows) result.count += counts[static_cast<std::size_t>(row)], result.correct += correct(row);
    return result;
  }
  Sums sums(std::span<const int> rows, const Values& w) const {
    Sums all{.gradient = Values(size())};
    for (const int row : rows) {
      const auto r = static_cast<std::size_t>(row);
      for (std::size_t i = 0; i < size(); ++i) {
        all.loss += coefficients[r][i] * w[i];
        if (i < 26) all.gradient[i] += coefficients[r][i];  // the rest is frozen, or a buffer
      }
      all.count += counts[r];
      all.correct += correct(row);
    }
    return all;
  }
};

TrainerConfig draw_config(RandomStream& random) {
  const double lr = uniform(random, 0.01, 0.3);
  TrainerConfig c{.lr = lr,
                  .min_lr = lr * uniform(random, 0, 1),
                  .schedule = one_of(
                      random, {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::noam, ScheduleKind::constant}),
                  .warmup_steps = one_of(random, {0, 1, 2, 3, 10}),
                  .steps = one_of<std::int64_t>(random, {1, 3, 4, 12}),
                  .adam = {.betas = {uniform(random, 0, 0.95), uniform(random, 0.5, 0.999)},
                           .eps = std::pow(10, uniform(random, -9, 0)),
                           .weight_decay = one_of(random, {0.0, 0.3}),
                           .decoupled = below(random, 3) > 0},
                  .clip_norm = 0,
                  .accumulate = one_of(random, {1, 1, 2, 3, 5}),
                  .shards = static_cast<int>(below(random, 9)),
                  .ema_decay = one_of(random, {0.5, 0.9}),
                  .seed = 5};
  if (c.schedule == ScheduleKind::noam) c.warmup_steps = std::max(1, c.warmup_steps);
  return c;
}

std::vector<int> draw_rows(RandomStream& random) {
  std::vector<int> rows{0};
  for (std::size_t n = below(random, 30); n > 0; --n) rows.push_back(static_cast<int>(below(random, kRows)));
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_of_a_linear_loss) {
  for (std::uint32_t draw = 0; draw < 200; ++draw) {
    RandomStream random(7, Purpose::test, draw);
    LinearLoss model(random);
    TrainerConfig c = draw_config(random);
    std::vector<std::vector<int>> batches;
    for (int step = 0; step < 3; ++step) batches.push_back(draw_rows(random));
    const std::vector<real> initial = model.values();
    Values w(initial.begin(), initial.end());
    const Sums first = model.sums(batches[0], w);
    double squares = 0;
    for (const double g : first.gradient) squares += g * g;
    c.clip_norm = one_of(random, {0.0, 0.4, 1.6}) * std::sqrt(squares) / first.count;

    const double decay = c.adam.weight_decay, body = 0.7, head_lr = 0.25;
    const ParameterGroups groups{{.prefix = "body.", .lr = 0.5},
                                 {.prefix = "body.w", .weight_decay = body},
                                 {.prefix = "head.", .lr = head_lr},
                                 {.prefix = "head.b", .lr = 2, .weight_decay = 0.1},
                                 {.prefix = "ice.", .weight_decay = 0.9}};
    Definition expected{.c = c, .w = w, .lr_factor = Values(w.size()), .decay = Values(w.size())};
    const auto set = [&](std::size_t begin, std::size_t end, double factor, double of) {
      std::fill(&expected.lr_factor[begin], &expected.lr_factor[begin] + (end - begin), factor);
      std::fill(&expected.decay[begin], &expected.decay[begin] + (end - begin), of);
    };
    set(0, 12, 1, body), set(12, 16, 0.5, 0), set(16, 24, head_lr, decay), set(24, 26, 2, 0.1);

    set_num_threads(static_cast<int>(1 + draw % 4));
    Trainer trainer(model.parameters, c, groups);
    for (std::size_t step = 0; step < 3; ++step) {
      const std::string what = "draw " + std::to_string(draw) + ", step " + std::to_string(step + 1);
      const StepResult found = trainer.step(batches[step], [&](auto rows) { return model.loss(rows); });
      expected.step(model.sums(batches[step], expected.w));
      check_result(found, expected.last, what);
      check_close(model.values(), expected.w, what);
      trainer.averages().swap();
      check_close(model.values(), expected.averages(), what + " average");
      trainer.averages().swap();
    }
    set_num_threads(1);
  }
}

namespace {

// A linear token classifier: each example has 0 to 4 tokens, some of which are ignored.
struct Classifier {
  static constexpr std::size_t kClasses = 4, kWidth = 3;
  static constexpr int kIgnored = -1;
  Parameters parameters{2};
  Tensor weight = parameters.root().parameter("weight", {kClasses, kWidth}, init_normal(1));
  Tensor bias = parameters.root().parameter("bias", {kClasses}, init_normal(1));
  std::vector<std::vector<int>> targets;
  std::vector<Values> features;
  double smoothing;

  Classifier(RandomStream& random, double label_smoothing) : smoothing(label_smoothing) {
    for (std::size_t row = 0; row < kRows; ++row) {
      targets.emplace_back(), features.emplace_back();
      for (std::size_t token = row == 0 ? 2 : below(random, 5); token > 0; --token) {
        targets.back().push_back(row > 0 && below(random, 3) == 0 ? kIgnored : static_cast<int>(below(random, 4)));
        for (std::size_t i = 0; i < kWidth; ++i) features.back().push_back(eighths(random) / 4);
      }
    }
  }
  std::vector<real> values() const {
    std::vector<real> all(weight.values().begin(), weight.values().end());
    all.insert(all.end(), bias.values().begin(), bias.values().end());
    return all;
  }

  ShardLoss loss(std::span<const int> rows) const {
    std::vector<int> all;
    std::vector<real> x;
    for (const int row : rows) {
      const auto r = static_cast<std::size_t>(row);
      all.insert(all.end(), targets[r].begin(), targets[r].end());
      for (const double v : features[r]) x.push_back(static_cast<real>(v));
    }
    const Tensor logits = linear(tensor({static_cast<int>(all.size()), kWidth}, x), weight, bias);
    ShardLoss result{cross_entropy(
        logits, all, {.label_smoothing = smoothing, .ignore_index = kIgnored, .reduction = Reduction::sum})};
    const std::vector<int> best = argmax(logits);
    for (std::size_t i = 0; i < all.size(); ++i) {
      result.count += all[i] != kIgnored;
      result.correct += best[i] == all[i];
    }
    return result;
  }
  // Token by token, from the softmax.
  Sums sums(std::span<const int> rows, const Values& w) const {
    Sums all{.gradient = Values(w.size())};
    for (const int row : rows)
      for (std::size_t token = 0; token < targets[static_cast<std::size_t>(row)].size(); ++token) {
        const int target = targets[static_cast<std::size_t>(row)][token];
        if (target == kIgnored) continue;
        const double* const x = &features[static_cast<std::size_t>(row)][token * kWidth];
        Values logits(kClasses), wanted(kClasses, smoothing / kClasses);
        wanted[static_cast<std::size_t>(target)] += 1 - smoothing;
        double total = 0;
        for (std::size_t k = 0; k < kClasses; ++k) {
          logits[k] = w[kClasses * kWidth + k];
          for (std::size_t i = 0; i < kWidth; ++i) logits[k] += w[k * kWidth + i] * x[i];
          total += std::exp(logits[k]);
        }
        for (std::size_t k = 0; k < kClasses; ++k) {
          const double p = std::exp(logits[k]) / total, slope = p - wanted[k];
          all.loss -= wanted[k] * std::log(p);
          for (std::size_t i = 0; i < kWidth; ++i) all.gradient[k * kWidth + i] += slope * x[i];
          all.gradient[kClasses * kWidth + k] += slope;
        }
        ++all.count;
        all.correct += std::ranges::max_element(logits) - logits.begin() == target;
      }
    return all;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(steps_of_a_classifier_with_smoothing_and_ignored_targets) {
  for (std::uint32_t draw = 0; draw < 60; ++draw) {
    RandomStream random(8, Purpose::test, draw);
    Classifier model(random, one_of(random, {0.0, 0.1, 0.4}));
    TrainerConfig c = draw_config(random);
    c.adam.eps = uniform(random, 0.05, 0.5), c.clip_norm = one_of(random, {0.0, 0.2, 5.0});
    const std::vector<real> initial = model.values();
    const std::size_t size = initial.size();
    Definition expected{
        .c = c, .w = {initial.begin(), initial.end()}, .lr_factor = Values(size, 1), .decay = Values(size)};
    std::fill_n(expected.decay.begin(), Classifier::kClasses * Classifier::kWidth, c.adam.weight_decay);
    set_num_threads(static_cast<int>(1 + draw % 4));
    Trainer trainer(model.parameters, c);
    for (int step = 1; step <= 3; ++step) {
      const std::string what = "draw " + std::to_string(draw) + ", step " + std::to_string(step);
      const std::vector<int> rows = draw_rows(random);
      const StepResult found = trainer.step(rows, [&](auto some) { return model.loss(some); });
      expected.step(model.sums(rows, expected.w));
      check_result(found, expected.last, what);
      check_close(model.values(), expected.w, what);
    }
    set_num_threads(1);
  }
}

// Gradient descent along the mean, with momentum: w = w_0 - lr sum_t v_t, v_t = sum_i momentum^(t - i) g_i.
BOOST_AUTO_TEST_CASE(descent_along_the_mean_of_shards) {
  for (std::uint32_t draw = 0; draw < 40; ++draw) {
    RandomStream random(9, Purpose::test, draw);
    LinearLoss model(random);
    const double lr = 0.05, momentum = one_of(random, {0.0, 0.9}), scale_by = 1 + uniform(random, 0, 1);
    set_num_threads(static_cast<int>(1 + draw % 4));
    DataParallel shards(model.parameters, below(random, 9), 1 + below(random, 3));
    Sgd sgd(model.parameters, {.momentum = momentum});
    const std::vector<real> initial = model.values();
    Values w(initial.begin(), initial.end());
    std::vector<Values> gradients;
    for (std::uint32_t step = 1; step <= 3; ++step) {
      const std::vector<int> rows = draw_rows(random);
      const Sums sums = model.sums(rows, w);
      const StepLoss found = shards.backward(rows.size(), 1, step, [&](std::size_t first, std::size_t last) {
        return model.loss(std::span(rows).subspan(first, last - first));
      });
      check_close(found.mean(), sums.loss / sums.count, "loss", kIsDouble ? 1e-12 : 2e-5);
      BOOST_CHECK_EQUAL(found.count, sums.count);
      BOOST_CHECK_EQUAL(found.correct, sums.correct);
      sgd.step(lr, scale_by / found.count);
      gradients.push_back(sums.gradient);
      for (double& g : gradients.back()) g *= scale_by / sums.count;
      for (std::size_t k = 0; k < gradients.size(); ++k)
        for (std::size_t i = 0; i < w.size(); ++i)
          w[i] -= lr * std::pow(momentum, static_cast<double>(gradients.size() - 1 - k)) * gradients[k][i];
      check_close(model.values(), w, "step " + std::to_string(step));
    }
    set_num_threads(1);
  }
}
