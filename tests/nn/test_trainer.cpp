// Training steps against their formula, schedules at their corners, and the state after a failed step.
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include "support/ranges.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

using namespace seppo;

namespace {

constexpr std::size_t kSize = 5;   // parameters
constexpr std::size_t kRows = 23;  // examples

// Example r counts for counts[r] and has the loss coefficients[r] . w: all sums are exact in single precision.
struct LinearTask {
  std::vector<std::vector<double>> coefficients;
  std::vector<int> counts;

  LinearTask() {
    RandomStream random(3, Purpose::test);
    for (std::size_t r = 0; r < kRows; ++r) {
      counts.push_back(static_cast<int>(random.below(4)));  // some are 0
      coefficients.emplace_back();
      for (std::size_t i = 0; i < kSize; ++i) coefficients[r].push_back((random.below(65) - 32.0) / 8);
    }
  }
  ShardLoss loss(const Tensor& w, std::span<const int> rows) const {
    std::vector<real> all(kSize);
    ShardLoss result;
    for (const int row : rows) {
      const auto r = static_cast<std::size_t>(row);
      for (std::size_t i = 0; i < kSize; ++i) all[i] += static_cast<real>(coefficients[r][i]);
      result.count += counts[r];
      result.correct += row % 2;
    }
    result.loss = sum(w * tensor({static_cast<int>(kSize)}, all));
    return result;
  }
};

// The rows of each step: batches of different sizes, one with a repeated row.
const std::vector<std::vector<int>> kBatches{
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, {20, 21}, {7, 7, 22, 19, 3}};

// Steps by definition, in double precision: Kingma and Ba 2015, Loshchilov and Hutter 2019, warm-up to a constant.
struct Definition {
  std::vector<double> w, m = std::vector<double>(kSize), v = m;
  StepResult last = {};
  std::vector<std::vector<double>> earlier = {};  // w after each step

  // sum_i decay^(t - i) w_i / sum_i decay^(t - i)
  std::vector<double> average(double decay) const {
    std::vector<double> mean(kSize);
    double weight = 1, weights = 0;
    for (auto values = earlier.rbegin(); values != earlier.rend(); ++values, weight *= decay) {
      for (std::size_t i = 0; i < kSize; ++i) mean[i] += weight * (*values)[i];
      weights += weight;
    }
    for (double& x : mean) x /= weights;
    return mean;
  }

  void step(const LinearTask& task, const TrainerConfig& c, std::span<const int> rows) {
    const auto t = static_cast<double>(++last.step);
    std::vector<double> gradient(kSize);
    double loss = 0, count = 0, correct = 0, squares = 0;
    for (const int row : rows) {
      const auto r = static_cast<std::size_t>(row);
      for (std::size_t i = 0; i < kSize; ++i) gradient[i] += task.coefficients[r][i];
      count += task.counts[r];
      correct += row % 2;
    }
    for (std::size_t i = 0; i < kSize; ++i) loss += gradient[i] * w[i];
    for (double& g : gradient) g /= count, squares += g * g;
    last.loss = loss / count;
    last.accuracy = correct / count;
    last.gradient_norm = std::sqrt(squares);
    last.lr = c.lr * std::min(1.0, t / std::max(1, c.warmup_steps));
    for (std::size_t i = 0; i < kSize; ++i) {
      double g = gradient[i];
      if (c.clip_norm > 0 && last.gradient_norm > c.clip_norm) g *= c.clip_norm / last.gradient_norm;
      m[i] = c.adam.betas[0] * m[i] + (1 - c.adam.betas[0]) * g;
      v[i] = c.adam.betas[1] * v[i] + (1 - c.adam.betas[1]) * g * g;
      const double m_hat = m[i] / (1 - std::pow(c.adam.betas[0], t)), v_hat = v[i] / (1 - std::pow(c.adam.betas[1], t));
      w[i] -= last.lr * c.adam.weight_decay * w[i] + last.lr * m_hat / (std::sqrt(v_hat) + c.adam.eps);
    }
    earlier.push_back(w);
  }
};

struct Trained {
  std::vector<real> values, averages;
  StepResult last;
};

Trained train(const LinearTask& task, const TrainerConfig& config, std::size_t steps, int threads) {
  set_num_threads(threads);
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {static_cast<int>(kSize)}, init_normal(1), true);
  Trainer trainer(parameters, config);
  Trained result;
  for (std::size_t s = 0; s < steps; ++s)
    result.last = trainer.step(kBatches[s], [&](std::span<const int> rows) { return task.loss(w, rows); });
  BOOST_CHECK_EQUAL(trainer.steps(), steps);
  for (const real g : parameters.gradients()) BOOST_REQUIRE_EQUAL(g, 0);
  set_num_threads(1);
  result.values.assign(w.values().begin(), w.values().end());
  trainer.averages().swap();
  result.averages.assign(w.values().begin(), w.values().end());
  trainer.averages().swap();
  BOOST_CHECK(std::ranges::equal(w.values(), result.values));
  return result;
}

}  // namespace

// Epsilon is large, as otherwise Adam's first step would be the same for any clipping and any count.
BOOST_AUTO_TEST_CASE(steps_follow_their_definition) {
  const LinearTask task;
  Parameters initial(1);
  const Tensor w = initial.root().parameter("w", {static_cast<int>(kSize)}, init_normal(1));
  for (const double clip_norm : {0.0, 0.25, 1e3})
    for (const int warmup_steps : {0, 2, 10})
      for (const std::size_t steps : {std::size_t{1}, std::size_t{3}}) {
        const TrainerConfig config{.lr = 0.1,
                                   .warmup_steps = warmup_steps,
                                   .adam = {.betas = {0.8, 0.95}, .eps = 0.5, .weight_decay = 0.3},
                                   .clip_norm = clip_norm,
                                   .ema_decay = 0.75};
        Definition expected{.w = {w.values().begin(), w.values().end()}};
        for (std::size_t s = 0; s < steps; ++s) expected.step(task, config, kBatches[s]);
        const Trained one = train(task, config, steps, 1);
        BOOST_TEST_CONTEXT("clip " << clip_norm << ", warm-up " << warmup_steps << ", steps " << steps) {
          for (std::size_t i = 0; i < kSize; ++i)
            BOOST_CHECK_SMALL(static_cast<double>(one.values[i]) - expected.w[i], 3e-7);
          const std::vector<double> average = expected.average(config.ema_decay);
          for (std::size_t i = 0; i < kSize; ++i)
            BOOST_CHECK_SMALL(static_cast<double>(one.averages[i]) - average[i], 4e-7);
          BOOST_CHECK_EQUAL(one.last.step, expected.last.step);
          BOOST_CHECK_SMALL(one.last.loss - expected.last.loss, 1e-5);
          BOOST_CHECK_CLOSE(one.last.accuracy, expected.last.accuracy, 1e-9);
          BOOST_CHECK_CLOSE(one.last.gradient_norm, expected.last.gradient_norm, 1e-9);
          BOOST_CHECK_CLOSE(one.last.lr, expected.last.lr, 1e-9);
          for (const int threads : {2, 4}) {
            const Trained many = train(task, config, steps, threads);
            BOOST_CHECK(std::memcmp(many.values.data(), one.values.data(), kSize * sizeof(real)) == 0);
            BOOST_CHECK_EQUAL(many.last.loss, one.last.loss);
          }
          for (const int accumulate : {2, 3, 8}) {  // sums are exact here: not a bit may differ
            TrainerConfig in_rounds = config;
            in_rounds.accumulate = accumulate;
            in_rounds.shards = accumulate % 3;
            const Trained same = train(task, in_rounds, steps, 2);
            BOOST_CHECK(same.values == one.values && same.averages == one.averages);
            BOOST_CHECK_SMALL(same.last.loss - one.last.loss, 1e-6);  // except in the loss, which is a product
            BOOST_CHECK_EQUAL(same.last.accuracy, one.last.accuracy);
          }
        }
      }
}

namespace {

// Trains a classifier with dropout for some steps and returns its parameters.
std::vector<real> train_classifier(std::uint64_t seed, int threads, int steps) {
  set_num_threads(threads);
  Parameters parameters(1);
  const Linear model(parameters.root(), 8, 3);
  Trainer trainer(parameters, {.lr = 0.05, .seed = seed});
  std::vector<int> rows(20);
  std::iota(rows.begin(), rows.end(), 0);
  for (int i = 0; i < steps; ++i)
    trainer.step(rows, [&](std::span<const int> some) {
      std::vector<int> targets;
      for (const int row : some) targets.push_back(row % 3);
      return classification_loss(model(dropout(full({static_cast<int>(some.size()), 8}, 1), 0.5)), targets);
    });
  set_num_threads(1);
  return {parameters.values().begin(), parameters.values().end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(dropout_is_keyed_by_seed_and_step) {
  const auto first = train_classifier(1, 1, 1), second = train_classifier(1, 1, 2);
  for (const int threads : {1, 2, 4}) BOOST_CHECK(train_classifier(1, threads, 2) == second);
  BOOST_CHECK(train_classifier(2, 1, 1) != first);

  // The masks themselves: 64 elements in each of three steps.
  const auto masks = [](std::uint64_t seed) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {64}, init_ones());
    Trainer trainer(parameters, {.seed = seed});
    std::vector<std::vector<bool>> drawn;
    for (int i = 0; i < 3; ++i)
      trainer.step(std::vector<int>{0}, [&](std::span<const int>) {
        const Tensor y = dropout(w, 0.5);
        drawn.emplace_back();
        for (const real v : y.values()) drawn.back().push_back(v == 0);
        return ShardLoss{sum(y), 1};
      });
    return drawn;
  };
  const auto drawn = masks(1);
  BOOST_CHECK(drawn[0] != drawn[1] && drawn[1] != drawn[2] && drawn[0] != drawn[2]);
  BOOST_CHECK(masks(1) == drawn);
  BOOST_CHECK(masks(2)[0] != drawn[0]);
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_changes_nothing) {
  const LinearTask task;
  const TrainerConfig config{.lr = 0.125};
  Parameters parameters(1), other(1);
  const Shape shape{static_cast<int>(kSize)};
  const Tensor w = parameters.root().parameter("w", shape, init_normal(1)),
               w_other = other.root().parameter("w", shape, init_normal(1));
  Trainer trainer(parameters, config), undisturbed(other, config);
  const auto loss = [&](std::span<const int> rows) { return task.loss(w, rows); };
  const auto message = [&](auto&& broken) -> std::string {
    try {
      trainer.step(kBatches[0], broken);
    } catch (const Error& e) {
      for (const real g : parameters.gradients()) BOOST_CHECK_EQUAL(g, 0);
      return e.what();
    }
    return "accepted";
  };
  for (const std::vector<int>& rows : kBatches) {
    constexpr real kInfinity = std::numeric_limits<real>::infinity();
    const auto with_loss = [&](auto&& f) {
      return message([&, f](std::span<const int> some) {
        ShardLoss shard = task.loss(w, some);
        if (some.front() == 0) shard.loss = f(shard.loss);
        return shard;
      });
    };
    const std::string numeric[] = {with_loss([&](const Tensor& x) { return x * kInfinity; }),
                                   with_loss([&](const Tensor&) { return sum(sqrt(w * real{0})); })};  // the gradient
    for (const std::string& text : numeric)
      for (const std::string& part : {"step " + std::to_string(trainer.steps() + 1), std::string("loss"),
                                      std::string("norm"), std::string("lr than 0.125")})
        BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos && text.size() < 200, text);
    for (const double count : {0.0, -1.0, std::nan("")}) {
      const std::string uncounted = message([&](std::span<const int> some) {
        return ShardLoss{task.loss(w, some).loss, count};
      });
      BOOST_CHECK_MESSAGE(uncounted.find("count must be positive") != std::string::npos, uncounted);
    }
    BOOST_CHECK_EQUAL(message([&](std::span<const int>) -> ShardLoss { fail<StateError>("mine"); }), "mine");
    BOOST_CHECK_THROW(trainer.step({}, loss), ArgumentError);

    trainer.step(rows, loss);
    undisturbed.step(rows, [&](std::span<const int> some) { return task.loss(w_other, some); });
    BOOST_CHECK_EQUAL(trainer.steps(), undisturbed.steps());
    BOOST_CHECK(std::equal(w.values().begin(), w.values().end(), w_other.values().begin()));
  }
}

BOOST_AUTO_TEST_CASE(the_callers_tape_is_not_touched) {
  tape().clear();
  const Tensor mine = full({3}, 2);
  train_classifier(1, 2, 1);
  BOOST_CHECK_EQUAL(mine.values()[2], 2);
}

// Each kind at the start, within warm-up, at the peak, half-way, at the end and after it.
BOOST_AUTO_TEST_CASE(schedules_at_their_corners) {
  using enum ScheduleKind;
  const auto at = [](TrainerConfig config, std::int64_t step) { return make_schedule(config)(step); };
  for (const ScheduleKind kind : {cosine, linear, constant}) {
    const TrainerConfig c{.lr = 2, .min_lr = 0.5, .schedule = kind, .warmup_steps = 10, .steps = 110};
    const double end = kind == constant ? 2 : 0.5, half = kind == constant ? 2 : 1.25;
    const double quarter = kind == constant ? 2 : kind == linear ? 1.625 : 0.5 + 1.5 * 0.5 * (1 + std::sqrt(0.5));
    const std::pair<int, double> points[] = {{1, 0.2},      {5, 1},     {9, 1.8},   {10, 2},
                                             {35, quarter}, {60, half}, {110, end}, {1000, end}};
    for (const auto& [step, lr] : points)
      BOOST_CHECK_MESSAGE(std::abs(at(c, step) - lr) < 1e-12,
                          enum_names(kind)[static_cast<std::size_t>(kind)] << " at " << step << ": " << at(c, step));
    TrainerConfig plain = c;  // without warm-up, down to 0
    plain.warmup_steps = 0;
    plain.min_lr = 0;
    BOOST_CHECK_SMALL(at(plain, 55) - (kind == constant ? 2 : 1), 1e-12);
    BOOST_CHECK_SMALL(at(plain, 110) - (kind == constant ? 2 : 0), 1e-12);
    TrainerConfig slow = c;  // warm-up longer than the run
    slow.warmup_steps = 1000;
    BOOST_CHECK_SMALL(at(slow, 110) - 0.22, 1e-12);
  }
  const TrainerConfig c{.lr = 2, .schedule = noam, .warmup_steps = 100};
  BOOST_CHECK_CLOSE(at(c, 1), 0.02, 1e-9);
  BOOST_CHECK_CLOSE(at(c, 50), 1, 1e-9);
  BOOST_CHECK_CLOSE(at(c, 100), 2, 1e-9);
  BOOST_CHECK_CLOSE(at(c, 400), 1, 1e-9);
  BOOST_CHECK_CLOSE(at(c, 40000), 0.1, 1e-9);
}

BOOST_AUTO_TEST_CASE(configs_that_cannot_be) {
  using enum ScheduleKind;
  Parameters parameters(1);
  parameters.root().parameter("w", {3}, init_ones());
  const auto refused = [&](const TrainerConfig& config, const std::string& part) {
    try {
      Trainer trainer(parameters, config);
      BOOST_ERROR("accepted: " + part);
    } catch (const ArgumentError& e) {
      BOOST_CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos, e.what());
    }
  };
  refused({.lr = 0.1, .min_lr = 0.2}, "min_lr 0.2 is above lr 0.1");
  refused({.schedule = noam}, "warmup_steps");
  refused({.schedule = cosine}, "the cosine schedule needs steps");
  refused({.schedule = linear}, "the linear schedule needs steps");
  refused({.lr = std::numeric_limits<double>::quiet_NaN()}, "lr nan is not in");
  refused({.ema_decay = 1}, "ema: decay 1 is not in [0, 1)");
  test::check_ranges(TrainerConfig(), [&](const TrainerConfig& config) { Trainer(parameters, config); });
  Trainer plain(parameters);
  BOOST_CHECK_THROW(plain.averages(), StateError);
}

BOOST_AUTO_TEST_CASE(metrics_of_classification) {
  tape().clear();
  const std::vector<real> scores{1, 2, 0, 5, 4, 3, 0, 0, 9, 7, 7, 0};
  const Tensor logits = tensor({4, 3}, scores);
  const std::vector<int> targets{1, 2, 2, 0};
  BOOST_CHECK_EQUAL(accuracy(logits, targets), 0.75);
  for (const double smoothing : {0.0, 0.3}) {
    const ShardLoss loss = classification_loss(logits, targets, smoothing);
    double expected = 0;
    for (std::size_t r = 0; r < 4; ++r) {
      double total = 0, mean = 0;
      for (std::size_t c = 0; c < 3; ++c) total += std::exp(static_cast<double>(scores[3 * r + c]));
      for (std::size_t c = 0; c < 3; ++c) mean += (std::log(total) - static_cast<double>(scores[3 * r + c])) / 3;
      const auto right = static_cast<double>(scores[3 * r + static_cast<std::size_t>(targets[r])]);
      expected += (1 - smoothing) * (std::log(total) - right) + smoothing * mean;
    }
    BOOST_CHECK_CLOSE(loss.loss.item(), expected, 1e-4);
    BOOST_CHECK_EQUAL(loss.count, 4);
    BOOST_CHECK_EQUAL(loss.correct, 3);
  }
  BOOST_CHECK_THROW(accuracy(logits, std::vector<int>{1}), ShapeError);
}
