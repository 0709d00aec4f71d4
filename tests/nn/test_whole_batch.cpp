// Losses that compare the examples of a batch with each other, losses that are means, and counts that cannot be.
// needs: precision: double
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

using namespace seppo;
namespace fs = std::filesystem;

namespace {

constexpr int kExamples = 40, kInputs = 5, kWidth = 3;
constexpr double kSharpness = 2;  // 1 / temperature
using Values = std::vector<double>;

std::size_t at(int row, int column, int columns) { return static_cast<std::size_t>(row * columns + column); }

// Pairs of an image and its text, and a linear tower for each.
struct Pairs {
  Pairs() {
    RandomStream random(1, Purpose::test);
    for (Values* values : {&images, &texts}) {
      values->resize(kExamples * kInputs);
      for (double& v : *values) v = random.normal();
    }
    rows.resize(kExamples);
    std::iota(rows.begin(), rows.end(), 0);
  }
  Values images, texts;  // [kExamples, kInputs]
  std::vector<int> rows;
};

struct Towers {
  explicit Towers(Parameters& parameters)
      : of_images(parameters.root().parameter("images", {kInputs, kWidth}, init_normal(1))),
        of_texts(parameters.root().parameter("texts", {kInputs, kWidth}, init_normal(1))) {}

  // The cross-entropy of each image's own text among the texts of `rows`: a mean.
  ShardLoss loss(const Pairs& pairs, std::span<const int> rows) const {
    const auto inputs = [&](const Values& all) {
      std::vector<real> picked;
      for (const int row : rows)
        for (int i = 0; i < kInputs; ++i) picked.push_back(static_cast<real>(all[at(row, i, kInputs)]));
      return tensor({static_cast<int>(rows.size()), kInputs}, picked);
    };
    const Tensor x = matmul(inputs(pairs.images), of_images), y = matmul(inputs(pairs.texts), of_texts);
    std::vector<int> own(rows.size());
    std::iota(own.begin(), own.end(), 0);
    const Tensor scores = matmul(x, transpose(y)) * static_cast<real>(kSharpness);  // [rows, rows]
    return mean_loss(cross_entropy(scores, own), static_cast<double>(rows.size()));
  }

  Tensor of_images, of_texts;
};

// The whole batch's loss and gradients, by hand.
struct ByHand {
  double loss = 0;
  Values images = Values(kInputs * kWidth), texts = images;  // gradients of the towers

  ByHand(const Pairs& pairs, const Towers& towers) {
    const auto embedded = [](const Values& inputs, const Tensor& tower) {
      Values result(kExamples * kWidth);
      for (int r = 0; r < kExamples; ++r)
        for (int i = 0; i < kInputs; ++i)
          for (int c = 0; c < kWidth; ++c)
            result[at(r, c, kWidth)] +=
                inputs[at(r, i, kInputs)] * static_cast<double>(tower.values()[at(i, c, kWidth)]);
      return result;
    };
    const Values x = embedded(pairs.images, towers.of_images), y = embedded(pairs.texts, towers.of_texts);
    for (int r = 0; r < kExamples; ++r) {
      Values p(kExamples);
      double total = 0;
      for (int other = 0; other < kExamples; ++other) {
        double score = 0;
        for (int c = 0; c < kWidth; ++c) score += kSharpness * x[at(r, c, kWidth)] * y[at(other, c, kWidth)];
        p[static_cast<std::size_t>(other)] = std::exp(score);
        total += std::exp(score);
      }
      for (double& probability : p) probability /= total;
      loss -= std::log(p[static_cast<std::size_t>(r)]) / kExamples;
      for (int other = 0; other < kExamples; ++other) {
        const double slope = (p[static_cast<std::size_t>(other)] - (other == r)) / kExamples;  // of the score
        for (int i = 0; i < kInputs; ++i)
          for (int c = 0; c < kWidth; ++c) {
            images[at(i, c, kWidth)] += slope * kSharpness * pairs.images[at(r, i, kInputs)] * y[at(other, c, kWidth)];
            texts[at(i, c, kWidth)] += slope * kSharpness * pairs.texts[at(other, i, kInputs)] * x[at(r, c, kWidth)];
          }
      }
    }
  }
};

// The gradient of a first step, which Adam's first moment has times 1 - 0.9.
Values gradient_in(const fs::path& file, const std::string& parameter) {
  const SafeTensorsFile saved(file);
  for (const TensorInfo& info : saved.tensors()) {
    if (info.name != "adam.m." + parameter) continue;
    std::vector<std::byte> bytes(info.bytes());
    saved.read(info, bytes);
    Values gradient;
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(real)) {
      real moment;
      std::memcpy(&moment, &bytes[i], sizeof(real));
      gradient.push_back(static_cast<double>(moment) / (1 - 0.9));
    }
    return gradient;
  }
  BOOST_FAIL("no moments of " + parameter);
  return {};
}

double largest_difference(const Values& a, const Values& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

struct Folder {
  fs::path path = fs::temp_directory_path() / ("seppo-whole-batch-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_gradient_of_a_contrastive_loss_is_the_whole_batchs) {
  const Folder folder;
  const Pairs pairs;
  const int before = num_threads();
  for (const bool whole_batch : {true, false})
    for (const int threads : {1, 2}) {
      set_num_threads(threads);
      Parameters parameters(2);
      const Towers towers(parameters);
      const ByHand expected(pairs, towers);
      Trainer trainer(parameters, {.clip_norm = 0, .whole_batch = whole_batch});
      std::atomic<int> calls = 0;
      const auto loss = [&](std::span<const int> rows) {
        ++calls;
        return towers.loss(pairs, rows);
      };
      const StepResult step = trainer.step(pairs.rows, loss);
      trainer.save(folder.path / "file");
      const double difference =
          std::max(largest_difference(gradient_in(folder.path / "file", "images"), expected.images),
                   largest_difference(gradient_in(folder.path / "file", "texts"), expected.texts));
      if (whole_batch) {
        BOOST_CHECK_EQUAL(calls, 1);
        BOOST_CHECK_SMALL(step.loss - expected.loss, 1e-12);
        BOOST_CHECK_SMALL(difference, 1e-12);
      } else {  // why whole_batch is there
        BOOST_CHECK_GT(calls, 1);
        BOOST_CHECK_LT(step.loss, expected.loss - 0.1);
        BOOST_CHECK_GT(difference, 0.01);
      }
    }
  set_num_threads(before);
}

// An evaluation compares the examples of a chunk.
BOOST_AUTO_TEST_CASE(an_evaluation_of_whole_batches) {
  const Pairs pairs;
  Parameters parameters(2);
  const Towers towers(parameters);
  const auto loss = [&](std::span<const int> rows) { return towers.loss(pairs, rows); };
  const Sums result = evaluate(pairs.rows, loss, kExamples);
  BOOST_CHECK_SMALL(result.mean("loss") - ByHand(pairs, towers).loss, 1e-12);
  BOOST_CHECK_EQUAL(result["count"], kExamples);
}

BOOST_AUTO_TEST_CASE(a_whole_batch_is_one_shard_in_one_round) {
  Parameters parameters(1);
  parameters.root().parameter("w", {3}, init_ones());
  BOOST_CHECK_THROW(Trainer(parameters, {.shards = 2, .whole_batch = true}), ArgumentError);
  BOOST_CHECK_THROW(Trainer(parameters, {.accumulate = 2, .whole_batch = true}), ArgumentError);
  BOOST_CHECK_NO_THROW(Trainer(parameters, {.shards = 1, .whole_batch = true}));
}

// A mean of each shard, weighted by its terms: the mean of the batch.
BOOST_AUTO_TEST_CASE(means_are_summed) {
  const std::vector<int> rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const auto step = [&](auto&& make) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {}, init_ones());
    Trainer trainer(parameters, {.clip_norm = 0, .shards = 5});
    return trainer.step(rows, [&](std::span<const int> some) {
      std::vector<real> squares;
      for (const int row : some) squares.push_back(static_cast<real>(row * row));
      return make(w * tensor({static_cast<int>(some.size())}, squares), static_cast<double>(some.size()));
    });
  };
  const StepResult of_means = step([](const Tensor&x, double n) { return mean_loss(mean(x), n, 2); }),
                   of_sums = step([](const Tensor&x, double n) {
                     return ShardLoss{sum(x), n, 2};
                   });
  BOOST_CHECK_CLOSE(of_sums.loss, 50, 1e-10);  // the mean of 0, 1, 4 ... 144
  BOOST_CHECK_CLOSE(of_means.loss, of_sums.loss, 1e-10);
  BOOST_CHECK_CLOSE(of_means.gradient_norm, of_sums.gradient_norm, 1e-10);
  BOOST_CHECK_EQUAL(of_means.accuracy, of_sums.accuracy);
  const Tensor one = full({}, 1);
  for (const double count : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    BOOST_CHECK_THROW(mean_loss(one, count), ArgumentError);
}

// The trap: a loss with its default reduction, beside the number of its terms, has a gradient that many times too
// small.
BOOST_AUTO_TEST_CASE(a_mean_of_several_terms_is_refused) {
  const std::vector<int> rows{0, 1, 2, 3}, targets{0, 2, 1, 1};
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {4, 3}, init_ones());
  Trainer trainer(parameters, {.shards = 1});
  const Tensor weights = parameters.root().constant({3}, init_ones());
  const std::vector<std::function<Tensor(Reduction)>> losses{
      [&](Reduction r) { return cross_entropy(w, targets, {.reduction = r}); },
      [&](Reduction r) {
        return cross_entropy(w, targets, {.label_smoothing = 0.1, .reduction = r, .weight = weights});
      },
      [&](Reduction r) {
        return cross_entropy(w, full({4, 3}, real{1} / 3), {.reduction = r});
      },
      [&](Reduction r) { return nll_loss(log_softmax(w), targets, {.reduction = r}); },
      [&](Reduction r) {
        return mse_loss(w, zeros({4, 3}), r);
      },
      [&](Reduction r) {
        return huber_loss(w, zeros({4, 3}), 1, r);
      },
      [&](Reduction r) {
        return binary_cross_entropy_with_logits(w, ones({4, 3}), {.reduction = r});
      },
      [&](Reduction r) { return r == Reduction::mean ? mean(w) : sum(w); }};
  for (std::size_t i = 0; i < losses.size(); ++i) BOOST_TEST_CONTEXT("loss " << i) {
      const auto given = [&](Reduction reduction, double count) {
        return [&, reduction, count](std::span<const int>) { return ShardLoss{losses[i](reduction), count}; };
      };
      const auto names_it = [](const ArgumentError& e) {
        return std::string(e.what()).find("the loss is a mean, but its count is 4: give the sum") != std::string::npos;
      };
      BOOST_CHECK_EXCEPTION(trainer.step(rows, given(Reduction::mean, 4)), ArgumentError, names_it);
      BOOST_CHECK_EXCEPTION(evaluate(rows, given(Reduction::mean, 4)), ArgumentError, names_it);
      BOOST_CHECK_NO_THROW(trainer.step(rows, given(Reduction::sum, 4)));
      BOOST_CHECK_NO_THROW(trainer.step(rows, given(Reduction::mean, 1)));
      BOOST_CHECK_NO_THROW(
          trainer.step(rows, [&](std::span<const int>) { return mean_loss(losses[i](Reduction::mean), 4); }));
    }
}

BOOST_AUTO_TEST_CASE(counts_that_cannot_be) {
  const std::vector<int> rows{0, 1, 2, 3, 4, 5, 6, 7};
  for (const auto& [count, shown] : {std::pair<double, const char*>{-1, "count is -1;"},
                                     {std::nan(""), "count is nan;"},
                                     {std::numeric_limits<double>::infinity(), "count is inf;"}}) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {3}, init_ones());
    Trainer trainer(parameters, {.shards = 4});
    const auto loss = [&, bad = count](std::span<const int> some) {  // of one shard, whose sign others outweigh
      return ShardLoss{sum(w), some.front() == 0 ? bad : 8.0};
    };
    const auto names_it = [text = std::string(shown)](const ArgumentError& e) {
      return std::string(e.what()).find(text) != std::string::npos;
    };
    BOOST_CHECK_EXCEPTION(trainer.step(rows, loss), ArgumentError, names_it);
    BOOST_CHECK_EXCEPTION(evaluate(rows, loss, 2), ArgumentError, names_it);
    BOOST_CHECK_EQUAL(trainer.steps(), 0);
    for (const real v : w.values()) BOOST_CHECK_EQUAL(v, 1);
    for (const real g : parameters.gradients()) BOOST_CHECK_EQUAL(g, 0);
  }
}
