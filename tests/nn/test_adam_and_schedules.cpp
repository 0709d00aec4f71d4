// Adam for gradients of all magnitudes and blocks of all lengths, schedules at their corners, and clipping, against
// formulas.
// needs: precision: double single; simd: avx2 plain
#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/optim/schedule.h>
#include <seppo/nn/train/trainer.h>

#include "support/ranges.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

using namespace seppo;

// Gradients from 1e-9 to 1, on both sides of an epsilon of 1e-8; lengths that fill the vectors and others, and one that
// several threads share. Moments are weighted means over all steps, which need no bias correction.
BOOST_AUTO_TEST_CASE(adam_of_small_and_large_gradients) {
  constexpr double kLr = 0.01;
  const double tolerance = 40 * double{std::numeric_limits<real>::epsilon()};  // relative to the learning rate
  for (const int size : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 40'000})
    for (const bool is_decoupled : {true, false})
      for (const double eps : {1e-8, 1e-3}) {
        const AdamConfig c{.betas = {0.9, 0.99}, .eps = eps, .weight_decay = 0.2, .decoupled = is_decoupled};
        set_num_threads(size > 1000 ? 3 : 1);
        Parameters parameters(1);
        const Tensor w = parameters.root().parameter("w", {size}, init_normal(1), /*decay=*/true);
        Adam adam(parameters, c);
        const auto n = static_cast<std::size_t>(size);
        std::vector<std::vector<double>> past;
        for (int step = 1; step <= 3; ++step) {
          RandomStream random(3, Purpose::test, static_cast<std::uint32_t>(step));
          const double scale = 1.0 / 3;
          std::vector<double> before(n), seen(n);
          for (std::size_t i = 0; i < n; ++i) {
            // The position determines the decade, so that steps have similar gradients.
            const double g = std::pow(10, -9.0 * static_cast<double>(i % 19) / 18) * (0.5 + random.uniform());
            parameters.gradients()[i] = static_cast<real>(random.below(4) == 0 ? -g : g);
            before[i] = static_cast<double>(w.values()[i]);
            seen[i] = scale * static_cast<double>(parameters.gradients()[i]) + (is_decoupled ? 0 : 0.2 * before[i]);
          }
          past.push_back(seen);
          adam.step(kLr, scale);
          for (std::size_t i = 0; i < n; ++i) {
            double m = 0, v = 0, m_weights = 0, v_weights = 0;
            for (std::size_t k = 0; k < past.size(); ++k) {
              const double age = static_cast<double>(past.size() - 1 - k);
              m += std::pow(0.9, age) * past[k][i];
              m_weights += std::pow(0.9, age);
              v += std::pow(0.99, age) * past[k][i] * past[k][i];
              v_weights += std::pow(0.99, age);
            }
            const double move = m / m_weights / (std::sqrt(v / v_weights) + eps);
            const double expected = before[i] - kLr * (move + (is_decoupled ? 0.2 * before[i] : 0));
            // The parameter is rounded in its own last place, its update in that of the learning rate.
            const double allowed = tolerance * kLr + double{std::numeric_limits<real>::epsilon()} * std::abs(expected);
            const double found = static_cast<double>(w.values()[i]);
            BOOST_CHECK_MESSAGE(std::abs(found - expected) <= allowed,
                                "size " << size << " [" << i << "], step " << step << ", eps " << eps << ": " << found
                                        << ", expected " << expected << ", off by " << found - expected);
            BOOST_CHECK_EQUAL(parameters.gradients()[i], 0);
          }
        }
        set_num_threads(1);
      }
}

// The squares of these gradients are out of range: the steps are those of any large gradient, nothing becomes infinite
// and the parameter goes on moving.
BOOST_AUTO_TEST_CASE(adam_of_gradients_whose_squares_overflow) {
  constexpr real kMax = std::numeric_limits<real>::max();
  const double root = std::sqrt(double{kMax});
  for (const double size : {0.4 * root, 2 * root, 1e3 * root, 0.9 * double{kMax}})
    for (const bool is_decoupled : {true, false}) {
      Parameters parameters(1);
      const Tensor w = parameters.root().parameter("w", {20}, init_zeros());
      Adam adam(parameters, {.decoupled = is_decoupled});
      for (int step = 1; step <= 20; ++step) {
        for (std::size_t i = 0; i < 20; ++i) parameters.gradients()[i] = static_cast<real>(i % 2 == 0 ? size : -size);
        adam.step(0.01);
        for (std::size_t i = 0; i < 20; ++i)
          BOOST_CHECK_CLOSE(double{w.values()[i]}, (i % 2 == 0 ? -0.01 : 0.01) * step, 1e-2);  // percent
      }
      for (std::size_t i = 0; i < 20; ++i)
        BOOST_CHECK(std::isfinite(adam.first_moments()[i]) && std::isfinite(adam.second_moments()[i]));
    }
}

// The squares of these are 0, and an epsilon beside them might be as good as 0.
BOOST_AUTO_TEST_CASE(adam_of_gradients_whose_squares_underflow) {
  for (const double size : {1e-3, 1e-1, 1e1}) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {1}, init_zeros());
    Adam adam(parameters, {.eps = 1e-30});
    for (int step = 1; step <= 10; ++step) {
      parameters.gradients()[0] = static_cast<real>(size * std::sqrt(double{std::numeric_limits<real>::min()}));
      adam.step(0.01);
      BOOST_CHECK(w.values()[0] < 0 && double{w.values()[0]} > -0.011 * step);
    }
  }
}

// What is not finite is not hidden.
BOOST_AUTO_TEST_CASE(adam_of_gradients_that_are_not_finite) {
  for (const real bad : {std::numeric_limits<real>::infinity(), std::numeric_limits<real>::quiet_NaN()}) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {1}, init_zeros());
    Adam adam(parameters);
    parameters.gradients()[0] = bad;
    adam.step(0.01);
    BOOST_CHECK(std::isnan(w.values()[0]));
  }
}

// All options differ from their defaults; steps before, at and after each corner.
BOOST_AUTO_TEST_CASE(learning_rates_at_every_corner) {
  const double lr = 0.3, low = 0.02, pi = std::numbers::pi;
  const auto check = [&](ScheduleKind kind, std::int64_t warmup, std::int64_t steps,
                         const std::vector<std::pair<std::int64_t, double>>& points) {
    const Schedule schedule{kind, lr, low, warmup, steps};
    for (const auto& [step, expected] : points)
      BOOST_CHECK_MESSAGE(std::abs(schedule(step) - expected) <= 1e-14,
                          enum_names(kind)[static_cast<std::size_t>(kind)]
                              << ", warm-up " << warmup << ", steps " << steps << ", at " << step << ": "
                              << schedule(step) << ", expected " << expected);
  };
  using enum ScheduleKind;
  const double rising = lr / 7;
  check(constant, 7, 19, {{0, 0}, {1, rising}, {6, 6 * rising}, {7, lr}, {8, lr}, {18, lr}, {19, lr}, {10'000, lr}});
  check(linear, 7, 19,
        {{0, 0},
         {1, rising},
         {6, 6 * rising},
         {7, lr},
         {8, low + (lr - low) * 11 / 12},
         {13, (lr + low) / 2},
         {18, low + (lr - low) / 12},
         {19, low},
         {20, low},
         {10'000, low}});
  check(cosine, 7, 19,
        {{0, 0},
         {1, rising},
         {6, 6 * rising},
         {7, lr},
         {8, low + (lr - low) * (1 + std::cos(pi / 12)) / 2},
         {13, (lr + low) / 2},
         {18, low + (lr - low) * (1 - std::cos(pi / 12)) / 2},
         {19, low},
         {20, low},
         {10'000, low}});
  check(noam, 7, 19,
        {{1, rising},
         {6, 6 * rising},
         {7, lr},
         {8, lr * std::sqrt(7.0 / 8)},
         {18, lr * std::sqrt(7.0 / 18)},
         {19, lr * std::sqrt(7.0 / 19)},
         {28, lr / 2},
         {700, lr / 10}});  // min_lr and steps have no effect
  // No warm-up, a single step of warm-up, a single step in total.
  for (const ScheduleKind kind : {constant, linear, cosine}) {
    const double end = kind == constant ? lr : low, half = kind == constant ? lr : (lr + low) / 2;
    check(kind, 0, 10, {{0, lr}, {5, half}, {10, end}, {11, end}});
    check(kind, 1, 11, {{0, 0}, {1, lr}, {6, half}, {11, end}, {12, end}});
    check(kind, 0, 1, {{0, lr}, {1, end}, {2, end}});
    check(kind, 4, 5, {{3, lr * 3 / 4}, {4, lr}, {5, end}, {6, end}});
  }
  check(linear, 0, 10, {{1, lr - (lr - low) / 10}, {9, low + (lr - low) / 10}});
  // Warm-up that takes all steps, or more, is not cut short, and no decay follows.
  for (const ScheduleKind kind : {constant, linear, cosine}) {
    check(kind, 6, 6, {{1, lr / 6}, {5, lr * 5 / 6}, {6, lr}});
    check(kind, 12, 6, {{1, lr / 12}, {6, lr / 2}});
  }
  check(noam, 1, 0, {{1, lr}, {4, lr / 2}, {100, lr / 10}});
  BOOST_CHECK_THROW((Schedule{noam, lr, low, 0, 19}(1)), ArgumentError);
}

// The rule itself: lr d^-1/2 min(step^-1/2, step warmup^-3/2) with lr = 1 / sqrt(d warmup) (Vaswani et al. 2017, 5.3).
BOOST_AUTO_TEST_CASE(noam_is_the_papers_rate) {
  const double d = 512, warmup = 40;
  const Schedule schedule{ScheduleKind::noam, 1 / std::sqrt(d * warmup), 0, 40, 0};
  for (const std::int64_t step : {1, 2, 39, 40, 41, 1000}) {
    const auto s = static_cast<double>(step);
    BOOST_CHECK_CLOSE(schedule(step), std::min(1 / std::sqrt(s), s * std::pow(warmup, -1.5)) / std::sqrt(d), 1e-11);
  }
}

// A thousand steps against the formula in double precision.
BOOST_AUTO_TEST_CASE(adam_follows_its_formula) {
  for (const bool decoupled : {true, false}) {
    Parameters parameters(5);
    parameters.root().parameter("w", {3, 7}, init_normal(1));
    parameters.root().parameter("b", {7}, init_normal(1));
    const AdamConfig o{.betas = {0.9, 0.98}, .eps = 1e-9, .weight_decay = 0.1, .decoupled = decoupled};
    Adam adam(parameters, o);
    const std::size_t n = parameters.values().size();
    std::vector<double> p(parameters.values().begin(), parameters.values().end()), m(n), v(n);
    RandomStream random(6, Purpose::test);
    for (int t = 1; t <= 1000; ++t) {
      const double lr = 1e-2 / t;
      for (const auto& e : parameters.entries())
        for (std::size_t i = e.offset; i < e.offset + e.size(); ++i) {
          const double raw = t <= 100 && i % 3 == 0 ? 0 : random.normal();
          parameters.gradients()[i] = static_cast<real>(raw);
          const double decay = e.decay ? o.weight_decay : 0;
          const double g = 0.5 * static_cast<double>(parameters.gradients()[i]) + (decoupled ? 0 : decay * p[i]);
          m[i] = o.betas[0] * m[i] + (1 - o.betas[0]) * g;
          v[i] = o.betas[1] * v[i] + (1 - o.betas[1]) * g * g;
          if (decoupled) p[i] -= lr * decay * p[i];
          p[i] -=
              lr * (m[i] / (1 - std::pow(o.betas[0], t))) / (std::sqrt(v[i] / (1 - std::pow(o.betas[1], t))) + o.eps);
        }
      adam.step(lr, 0.5);
    }
    for (const auto& e : parameters.entries())
      for (std::size_t i = e.offset; i < e.offset + e.size(); ++i)
        BOOST_CHECK_SMALL(static_cast<double>(parameters.values()[i]) - p[i], 2e-5);
    for (const real g : parameters.gradients()) BOOST_CHECK_EQUAL(g, 0);
    BOOST_CHECK_EQUAL(adam.steps(), 1000);
  }
}

BOOST_AUTO_TEST_CASE(adam_stays_finite_and_checks_its_options) {
  Parameters parameters(5);
  parameters.root().parameter("w", {4}, init_ones());
  Adam adam(parameters);
  for (const real g : {real{1e18f}, real{0}, real{1e-30f}}) {
    for (real& x : parameters.gradients()) x = g;
    adam.step(1e-3);
    for (const real v : parameters.values()) BOOST_CHECK(std::isfinite(v));
  }
  test::check_ranges(AdamConfig(), [&](const AdamConfig& config) { Adam(parameters, config); });
  parameters.root().parameter("late", {4}, init_ones());
  BOOST_CHECK_THROW(adam.step(1e-3), StateError);
}

BOOST_AUTO_TEST_CASE(schedules) {
  using enum ScheduleKind;
  const Schedule a{cosine, 2, 0.5, 10, 110};
  BOOST_CHECK_CLOSE(a(5), 1.0, 1e-9);
  BOOST_CHECK_CLOSE(a(10), 2.0, 1e-9);
  BOOST_CHECK_CLOSE(a(60), 1.25, 1e-9);
  BOOST_CHECK_CLOSE(a(110), 0.5, 1e-9);
  BOOST_CHECK_CLOSE(a(1000), 0.5, 1e-9);
  const Schedule b{linear, 2, 0, 10, 110};
  BOOST_CHECK_CLOSE(b(5), 1.0, 1e-9);
  BOOST_CHECK_CLOSE(b(60), 1.0, 1e-9);
  BOOST_CHECK_SMALL(b(110), 1e-12);
  // A warm-up longer than the training run still rises.
  BOOST_CHECK_CLOSE((Schedule{cosine, 2, 0, 100, 50}(25)), 0.5, 1e-9);
  BOOST_CHECK_CLOSE((Schedule{linear, 2, 0, 50, 50}(50)), 2.0, 1e-9);
  BOOST_CHECK_CLOSE((Schedule{constant, 3, 0, 4}(1)), 0.75, 1e-9);
  BOOST_CHECK_CLOSE((Schedule{constant, 3}(1)), 3.0, 1e-9);
  const Schedule c{noam, 1 / std::sqrt(512.0 * 4000), 0, 4000};
  BOOST_CHECK_CLOSE(c(4000), 1 / std::sqrt(512.0 * 4000), 1e-9);
  BOOST_CHECK_CLOSE(c(16000), c(4000) / 2, 1e-9);
  BOOST_CHECK_CLOSE(c(1000), c(4000) / 4, 1e-9);
  BOOST_CHECK_THROW((Schedule{noam, 1}(1)), ArgumentError);
}

BOOST_AUTO_TEST_CASE(clipping) {
  Parameters parameters(5);
  parameters.root().parameter("w", {2}, init_ones());
  parameters.gradients()[0] = 3;
  parameters.gradients()[1] = 4;
  BOOST_CHECK_CLOSE(gradient_norm(parameters), 5.0, 1e-9);
  BOOST_CHECK_EQUAL(clip_factor(5, 1), 0.2);
  BOOST_CHECK_EQUAL(clip_factor(5, 10), 1);
  BOOST_CHECK_EQUAL(clip_factor(5, 0), 1);
  parameters.gradients()[0] = 1e30f;  // its square overflows float
  BOOST_CHECK_CLOSE(gradient_norm(parameters), 1e30, 1e-4);
}

// Beyond 64 blocks of 2^20 gradients, the blocks are larger, and each gradient still counts once.
BOOST_AUTO_TEST_CASE(the_norm_of_many_gradients) {
  if (sizeof(real) == 8) return;
  constexpr int kBlocks = 65, kBlock = 1 << 20;
  Parameters parameters(1);
  parameters.root().parameter("w", {kBlocks, kBlock}, [](std::span<real>, const Shape&, RandomStream&) {});
  const std::span<real> gradients = parameters.gradients();
  double sum = 0;
  for (std::size_t i = 5; i < gradients.size(); i += 100'003) {
    gradients[i] = static_cast<real>(i % 17);
    sum += double{gradients[i]} * double{gradients[i]};
  }
  BOOST_CHECK_CLOSE(gradient_norm(parameters), std::sqrt(sum), 1e-9);
}

// Also the last ones of blocks that are not full.
BOOST_AUTO_TEST_CASE(the_norm_of_gradients_that_fill_no_block) {
  if (sizeof(real) == 8) return;
  Parameters parameters(1);
  parameters.root().parameter("w", {(65 << 20) + 1}, [](std::span<real>, const Shape&, RandomStream&) {});
  parameters.gradients()[65 << 20] = 3;
  BOOST_CHECK_EQUAL(gradient_norm(parameters), 3);
}

// The published shape: up to the peak, then down, along half cosines; its corners; a cycle of one or two steps.
BOOST_AUTO_TEST_CASE(one_cycle_rises_and_falls) {
  const double lr = 0.4, pi = std::numbers::pi;
  const OneCycle cycle{.lr = lr, .steps = 100};
  const auto arc = [&](double from, double to, double passed) {
    return (from + to) / 2 + (from - to) / 2 * std::cos(pi * passed);
  };
  for (std::int64_t step = 1; step <= 100; ++step) {
    const auto n = static_cast<double>(step);
    const double expected = step <= 30 ? arc(lr / 25, lr, (n - 1) / 29) : arc(lr, lr / 250'000, (n - 30) / 70);
    BOOST_CHECK_SMALL(cycle(step) - expected, 1e-15);
  }
  BOOST_CHECK_CLOSE(cycle(0), lr / 25, 1e-12);
  for (const std::int64_t late : {100, 101, 100'000}) BOOST_CHECK_CLOSE(cycle(late), lr / 250'000, 1e-9);
  const OneCycle other{.lr = 1, .steps = 10, .rise = 0.25, .start = 0.5, .end = 0.1};  // the peak is between steps
  BOOST_CHECK_SMALL(other(2) - arc(0.5, 1, 1 / 1.5), 1e-15);
  BOOST_CHECK_SMALL(other(3) - arc(1, 0.1, 0.5 / 7.5), 1e-15);
  BOOST_CHECK_SMALL(other(10) - 0.1, 1e-15);
  // A cycle whose peak is before its first step falls only, as PyTorch's does.
  BOOST_CHECK_CLOSE((OneCycle{.lr = 1, .steps = 1}(1)), 1 / 250'000.0, 1e-9);
  for (const std::int64_t step : {1, 2})
    BOOST_CHECK_SMALL((OneCycle{.lr = 1, .steps = 2, .end = 0}(step)) - arc(1, 0, step == 1 ? 0.4 / 1.4 : 1), 1e-15);
  BOOST_CHECK_SMALL((OneCycle{.lr = 1, .steps = 4, .rise = 0, .end = 0}(1)) - arc(1, 0, 0.25), 1e-15);
  BOOST_CHECK_EQUAL((OneCycle{.lr = 1, .steps = 4, .rise = 0.25}(1)), 1);  // its first step is the peak
  BOOST_CHECK_EQUAL((OneCycle{.lr = 1, .steps = 4, .rise = 1}(4)), 1);
  const double inf = std::numeric_limits<double>::infinity();
  for (const OneCycle bad :
       {OneCycle{.lr = 1}, OneCycle{.lr = 1, .steps = -1}, OneCycle{.steps = 9, .rise = -0.1},
        OneCycle{.steps = 9, .rise = 1.1}, OneCycle{.steps = 9, .rise = std::nan("")}, OneCycle{.lr = -1, .steps = 9},
        OneCycle{.lr = inf, .steps = 9}, OneCycle{.steps = 9, .start = std::nan("")}, OneCycle{.steps = 9, .end = -1}})
    BOOST_CHECK_THROW(bad(1), ArgumentError);
}
