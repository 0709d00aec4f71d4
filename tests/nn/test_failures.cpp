// A failure in the middle of a step leaves no trace: whichever shard throws, in whichever phase, the next step equals,
// byte for byte, that of an undisturbed object. And a loss or gradient that is not finite, even if only one of them,
// ends the training run, or its step is skipped.
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace seppo;

namespace {

constexpr int kRows = 40;
constexpr real kNan = std::numeric_limits<real>::quiet_NaN(), kInf = std::numeric_limits<real>::infinity();

struct Broken : std::runtime_error {
  Broken() : std::runtime_error("broken") {}
};

// x itself; backward calls f with the gradient of x once it is computed.
Tensor watched(const Tensor& x, const std::function<void(std::span<real>)>& f) {
  const Tensor y = full(x.shape(), 0);
  std::copy(x.values().begin(), x.values().end(), y.data());
  record("watched", y, {x}, [x, y, &f] {
    const auto n = static_cast<std::size_t>(x.numel());
    for (std::size_t i = 0; i < n; ++i) grad_of(x)[i] += grad_of(y)[i];
    f({grad_of(x), n});
  });
  return y;
}

constexpr int kEveryShard = -2;
// What happens in the shard that contains this row; -1 means in none. It must outlive backward.
struct Fault {
  int row = -1;
  std::function<void()> forward = {}, after = {};          // before and after the ops of the loss
  std::function<void(std::span<real>)> backward = {};      // in the middle of backward
  std::function<Tensor(const Tensor& loss)> changed = {};  // replaces the loss
};

// A network with dropout, shared weights and a norm.
struct Network {
  Parameters parameters{3};
  Linear up{parameters.root() / "up", 3, 8}, down{parameters.root() / "down", 8, 4};
  LayerNorm norm{parameters.root() / "norm", 8};

  ShardLoss loss(std::span<const int> rows, const Fault& fault) const {
    const bool is_hit = fault.row == kEveryShard || std::ranges::find(rows, fault.row) != rows.end();
    if (is_hit && fault.forward) fault.forward();
    std::vector<real> x;
    std::vector<int> targets;
    for (const int row : rows) {
      for (int i = 0; i < 3; ++i) x.push_back(static_cast<real>(std::sin(row * 3.0 + i)));
      targets.push_back(row % 4);
    }
    Tensor h = norm(dropout(gelu(up(tensor({static_cast<int>(rows.size()), 3}, x))), 0.2));
    if (is_hit && fault.backward) h = watched(h, fault.backward);
    ShardLoss result = classification_loss(down(h), targets, 0.1);
    if (is_hit && fault.changed) result.loss = fault.changed(result.loss);
    if (is_hit && fault.after) fault.after();
    return result;
  }
};

std::vector<int> rows_of(int step) {
  std::vector<int> rows(kRows);
  std::iota(rows.begin(), rows.end(), step);
  return rows;
}

const std::function<void()> kThrow = [] { throw Broken(); };

// A trainer and everything that its next steps depend on.
struct Training {
  Network network;
  Trainer trainer;

  explicit Training(const TrainerConfig& config) : trainer(network.parameters, config) {}
  StepResult step(const Fault& fault = {}) {
    const std::vector<int> rows = rows_of(static_cast<int>(trainer.steps()));
    return trainer.step(rows, [&](std::span<const int> some) { return network.loss(some, fault); });
  }
  std::vector<real> state() {
    std::vector<real> all;
    const auto add = [&](std::span<const real> block) { all.insert(all.end(), block.begin(), block.end()); };
    add(network.parameters.values());
    add(network.parameters.gradients());
    add(trainer.averages().averages());
    return all;
  }
};

bool are_same(const StepResult& a, const StepResult& b) {
  return a.step == b.step && a.loss == b.loss && a.accuracy == b.accuracy && a.gradient_norm == b.gradient_norm &&
         a.lr == b.lr && a.is_skipped == b.is_skipped;
}

const TrainerConfig kConfig{.lr = 0.05, .warmup_steps = 3, .adam = {.weight_decay = 0.1}, .ema_decay = 0.8, .seed = 6};

std::vector<TrainerConfig> configs() {
  std::vector<TrainerConfig> all;
  for (const auto& [shards, rounds] : {std::pair{1, 1}, {3, 1}, {0, 1}, {2, 3}, {5, 2}}) {
    all.push_back(kConfig);
    all.back().shards = shards, all.back().accumulate = rounds;
  }
  return all;
}

// The first row of each shard of a step.
std::vector<int> first_rows(const TrainerConfig& config, const Parameters& like, int step) {
  Parameters parameters(1);
  parameters.root().parameter("w", {static_cast<int>(like.count())}, init_zeros());
  const DataParallel parallel(parameters, static_cast<std::size_t>(config.shards),
                              static_cast<std::size_t>(config.accumulate));
  std::vector<int> rows;
  int row = step;
  for (const std::size_t size : parallel.shard_sizes(kRows)) {
    if (size > 0) rows.push_back(row);
    row += static_cast<int>(size);
  }
  return rows;
}

}  // namespace

// Throws in the loss function before and after its ops, in the backward of an op, and when the loss is not finite and
// the step is repeated to find out why; in each shard of each round.
BOOST_AUTO_TEST_CASE(a_throw_in_any_shard_and_phase_leaves_no_trace) {
  std::atomic<int> calls = 0;
  const std::vector<std::pair<std::string, Fault>> faults{
      {"forward", {.forward = kThrow}},
      {"after forward", {.after = kThrow}},
      {"backward", {.backward = [](std::span<real>) { throw Broken(); }}},
      {"while it is looked into",
       {.forward =
            [&] {
              if (++calls == 2) throw Broken();
            },
        .changed = [](const Tensor& loss) { return loss * kNan; }}}};
  for (const TrainerConfig& config : configs())
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      for (const auto& [name, kind] : faults) {
        Training disturbed(config), undisturbed(config);
        BOOST_REQUIRE(are_same(disturbed.step(), undisturbed.step()));
        const std::vector<real> before = undisturbed.state();
        const std::vector<int> rows = first_rows(config, disturbed.network.parameters, 1);
        for (const int row : rows) {
          const std::string what = std::to_string(config.shards) + " shards, " + std::to_string(config.accumulate) +
                                   " rounds, " + name + ", row " + std::to_string(row);
          Fault fault = kind;
          fault.row = row;
          calls = 0;
          const std::size_t nodes = tape().size();
          BOOST_CHECK_THROW(disturbed.step(fault), Broken);
          BOOST_CHECK_MESSAGE(disturbed.state() == before && disturbed.trainer.steps() == 1, what);
          BOOST_CHECK(tape().size() == nodes && tape().mode == Mode::train && !inside_task());
        }
        for (int step = 2; step <= 3; ++step) {
          BOOST_CHECK_MESSAGE(are_same(disturbed.step(), undisturbed.step()), name);
          BOOST_CHECK_MESSAGE(disturbed.state() == undisturbed.state(), name << ", step " << step);
        }
      }
    }
  set_num_threads(1);
}

// One shard or all of them throw in every other step: gradients and blocks are clean each time.
BOOST_AUTO_TEST_CASE(shards_by_themselves_are_as_new_after_a_throw) {
  for (const int threads : {1, 2, 4})
    for (const auto& [shards, rounds] : {std::pair{4u, 1u}, {3u, 2u}, {1u, 3u}}) {
      set_num_threads(threads);
      Network network, other;
      DataParallel parallel(network.parameters, shards, rounds);
      const auto backward = [](DataParallel& of, Network& with, const Fault& fault) {
        return of.backward(kRows, 5, 1, [&](std::size_t first, std::size_t last) {
          std::vector<int> rows(last - first);
          std::iota(rows.begin(), rows.end(), static_cast<int>(first));
          return with.loss(rows, fault);
        });
      };
      for (const int row : {kEveryShard, 0, kRows - 1, kEveryShard, kRows / 2})
        for (const Fault& kind : {Fault{.forward = kThrow}, {.backward = [](std::span<real>) { throw Broken(); }}}) {
          Fault fault = kind;
          fault.row = row;
          BOOST_CHECK_THROW(backward(parallel, network, fault), Broken);
          for (const real g : network.parameters.gradients()) BOOST_REQUIRE_EQUAL(g, 0);
          DataParallel fresh(other.parameters, shards, rounds);
          const StepLoss found = backward(parallel, network, {}), expected = backward(fresh, other, {});
          BOOST_CHECK(found.loss == expected.loss && found.count == kRows);
          BOOST_CHECK(std::ranges::equal(network.parameters.gradients(), other.parameters.gradients()));
          network.parameters.zero_gradients(), other.parameters.zero_gradients();
        }
    }
  set_num_threads(1);
}

BOOST_AUTO_TEST_CASE(a_throw_in_any_part_of_an_evaluation_leaves_no_trace) {
  const std::vector<int> rows = rows_of(0);
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    Training disturbed(kConfig), undisturbed(kConfig);
    const auto sums = [&](const Fault& fault) {
      return evaluate(
          rows, [&](std::span<const int> some) { return disturbed.network.loss(some, fault); }, 7);
    };
    const Sums expected = sums({});
    for (int row = 0; row < kRows; row += 7) {
      const std::size_t nodes = tape().size();
      BOOST_CHECK_THROW(sums({.row = row, .forward = kThrow}), Broken);
      BOOST_CHECK_THROW(sums({.row = row, .after = kThrow}), Broken);
      BOOST_CHECK(tape().size() == nodes && tape().mode == Mode::train && !inside_task());
      const Sums again = sums({});
      BOOST_CHECK(again["loss"] == expected["loss"] && again["correct"] == expected["correct"]);
      BOOST_CHECK_EQUAL(again["count"], kRows);
    }
    BOOST_CHECK(are_same(disturbed.step(), undisturbed.step()) && disturbed.state() == undisturbed.state());
  }
  set_num_threads(1);
}

namespace {

// Losses and gradients that are not finite, separately and together.
std::vector<std::pair<std::string, Fault>> divergences() {
  const auto spoil = [](real value) { return [=](std::span<real> gradient) { gradient[1] = value; }; };
  const auto add = [](real value) { return [=](const Tensor& loss) { return loss + full({}, value); }; };
  return {{"a gradient of NaN", {.backward = spoil(kNan)}},
          {"an infinite gradient", {.backward = spoil(-kInf)}},
          {"a loss of NaN", {.changed = add(kNan)}},
          {"an infinite loss", {.changed = add(kInf)}},
          {"both", {.backward = spoil(kInf), .changed = add(kNan)}}};
}

}  // namespace

// A loss alone or a gradient alone suffices, in any shard, even if it is finite when the step is repeated.
BOOST_AUTO_TEST_CASE(divergence_stops_a_training_as_it_was) {
  std::atomic<int> calls = 0;
  auto all = divergences();
  all.push_back({"NaN every other time",
                 {.changed = [&](const Tensor& loss) { return loss + full({}, ++calls % 2 == 1 ? kNan : 0); }}});
  for (TrainerConfig config : configs())
    for (const double clip_norm : {0.0, 1.0})
      for (const auto& [name, kind] : all) {
        config.clip_norm = clip_norm;
        Training disturbed(config), undisturbed(config);
        disturbed.step(), undisturbed.step();
        for (const int row : first_rows(config, disturbed.network.parameters, 1)) {
          Fault fault = kind;
          fault.row = row;
          BOOST_CHECK_EXCEPTION(disturbed.step(fault), NumericError, [](const NumericError& e) {
            return std::string(e.what()).find("trainer: step 2: loss") == 0;
          });
          BOOST_CHECK_MESSAGE(disturbed.state() == undisturbed.state() && disturbed.trainer.steps() == 1, name);
        }
        BOOST_CHECK_MESSAGE(are_same(disturbed.step(), undisturbed.step()), name);
        BOOST_CHECK_MESSAGE(disturbed.state() == undisturbed.state(), name);
      }
}

// A skipped step counts for the schedule and for dropout, but not for Adam and the averages, as in a manual loop.
BOOST_AUTO_TEST_CASE(divergence_skips_a_step_and_moves_nothing) {
  for (TrainerConfig config : configs())
    for (const auto& [name, kind] : divergences()) {
      config.on_nan = OnNan::skip;
      config.clip_norm = 0.5;
      Training training(config);
      Network by_hand;
      DataParallel parallel(by_hand.parameters, static_cast<std::size_t>(config.shards),
                            static_cast<std::size_t>(config.accumulate));
      Adam adam(by_hand.parameters, config.adam);
      Ema ema(by_hand.parameters, config.ema_decay);
      for (int step = 1; step <= 5; ++step) {
        const bool is_broken = step == 2 || step == 4;
        Fault fault = kind;
        fault.row = is_broken ? step - 1 + kRows / 2 : -1;
        const std::vector<real> before = training.state();
        const StepResult result = training.step(fault);
        BOOST_CHECK_MESSAGE(result.step == step && result.is_skipped == is_broken, name << ", step " << step);
        BOOST_CHECK_EQUAL(training.trainer.steps(), step);
        if (is_broken) {
          BOOST_CHECK_MESSAGE(training.state() == before, name);
          BOOST_CHECK(!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm));
          BOOST_CHECK_EQUAL(std::isfinite(result.loss), !kind.changed);
          continue;
        }
        const std::vector<int> rows = rows_of(step - 1);
        const StepLoss sums = parallel.backward(rows.size(), config.seed, static_cast<std::uint32_t>(step),
                                                [&](std::size_t first, std::size_t last) {
                                                  return by_hand.loss(std::span(rows).subspan(first, last - first), {});
                                                });
        const double norm = gradient_norm(by_hand.parameters) / sums.count;
        adam.step(config.lr * std::min(1.0, step / 3.0), clip_factor(norm, 0.5) / sums.count);
        ema.update();
        const auto values = by_hand.parameters.values();
        const std::vector<real> state = training.state();
        BOOST_CHECK_MESSAGE(std::equal(values.begin(), values.end(), state.begin()), name << ", step " << step);
        BOOST_CHECK_MESSAGE(std::ranges::equal(ema.averages(), training.trainer.averages().averages()), name);
      }
    }
}

// A gradient that is finite, but whose square is not, without clipping: the step is one of the learning rate, the
// parameter goes on moving, and the state can be saved and loaded.
BOOST_AUTO_TEST_CASE(a_huge_finite_gradient_freezes_nothing) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {2}, init_zeros());
  Trainer trainer(parameters, {.lr = 0.01, .clip_norm = 0});
  const std::vector<int> row{0};
  for (int step = 1; step <= 5; ++step) {
    trainer.step(row, [&](std::span<const int>) { return ShardLoss{.loss = sum(w * 5e20), .count = 1}; });
    for (const real v : w.values()) BOOST_CHECK_CLOSE(v, static_cast<real>(-0.01 * step), static_cast<real>(1e-3));
  }
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("seppo-huge-" + std::to_string(std::random_device()()));
  trainer.save(file);
  trainer.load(SafeTensorsFile(file));
  std::filesystem::remove(file);
  BOOST_CHECK_EQUAL(trainer.steps(), 5);
}
