#include "odd_one/model.h"

#include "app/checkpoint_config.h"
#include "app/training.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/data/vocabulary.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace odd_one {

using seppo::Tensor;

nlohmann::json Options::to_json() const {
  return {{"kinds", kinds},     {"features", features}, {"noise", noise},    {"d_model", d_model},
          {"n_heads", n_heads}, {"n_layers", n_layers}, {"dropout", dropout}};
}

Options Options::from_json(const nlohmann::json& config) {
  using examples::config_integer, examples::config_number;
  return {.kinds = config_integer(config, "kinds", 2, 100'000),
          .features = config_integer(config, "features", 1, 4096),
          .noise = config_number(config, "noise", 0, 1e6),
          .d_model = config_integer(config, "d_model", 1, 1 << 16),
          .n_heads = config_integer(config, "n_heads", 1, 1 << 16),
          .n_layers = config_integer(config, "n_layers", 0, 1000),
          .dropout = config_number(config, "dropout", 0, 1)};
}

seppo::PredictorConfig Options::predictor() const {
  return {.features = features,
          .classes = 1,
          .d_model = d_model,
          .n_heads = n_heads,
          .d_ff = 2 * d_model,
          .n_layers = n_layers,
          .dropout = dropout,
          .input_dropout = dropout,
          .positions = seppo::Positions::none,
          .max_length = kElements};
}

World::World(std::uint64_t seed, const Options& options)
    : seed(seed), kinds(options.kinds), features(options.features), noise(options.noise) {
  seppo::RandomStream random(seed, seppo::Purpose::data, 30);
  for (int i = 0; i < kinds * features; ++i) centres.push_back(static_cast<float>(random.normal()));
}

World::Sets World::sets(std::span<const int> numbers) const {
  Sets sets{seppo::zeros({static_cast<int>(numbers.size()) * kElements, features}), {}};
  float* element = sets.elements.data();
  for (const int number : numbers) {
    seppo::RandomStream random(seed, seppo::Purpose::data, 31 + static_cast<std::uint64_t>(number));
    const unsigned many = static_cast<unsigned>(kinds);
    const unsigned kind = static_cast<unsigned>(random.below(many));
    const unsigned other = (kind + 1 + static_cast<unsigned>(random.below(many - 1))) % many;
    sets.odd.push_back(static_cast<int>(random.below(kElements)));
    for (int i = 0; i < kElements; ++i) {
      const std::size_t centre = (i == sets.odd.back() ? other : kind) * static_cast<std::size_t>(features);
      for (std::size_t j = 0; j < static_cast<std::size_t>(features); ++j)
        *element++ = centres[centre + j] + static_cast<float>(noise * random.normal());
    }
  }
  return sets;
}

Tensor scores(const seppo::Predictor& model, const Tensor& elements, seppo::AttentionMaps* maps) {
  std::vector<int> rows;
  for (int row = 0; row <= elements.size(0); row += kElements) rows.push_back(row);
  return reshape(model(elements, rows, maps), {-1, kElements});
}

seppo::ShardLoss loss(const seppo::Predictor& model, const World& world, std::span<const int> numbers) {
  const World::Sets sets = world.sets(numbers);
  return examples::classification_loss(scores(model, sets.elements), sets.odd);
}

double accuracy(const seppo::Predictor& model, const World& world, int first, int count) {
  constexpr std::size_t kChunk = 64;  // sets looked at at a time by one thread
  const auto all = static_cast<std::size_t>(count);
  std::vector<double> correct((all + kChunk - 1) / kChunk);
  seppo::parallel_for(0, all, kChunk, [&](std::size_t begin, std::size_t end) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    std::vector<int> numbers(end - begin);
    std::iota(numbers.begin(), numbers.end(), first + static_cast<int>(begin));
    correct[begin / kChunk] = loss(model, world, numbers).correct;
  });
  return std::accumulate(correct.begin(), correct.end(), 0.0) / count;
}

int answer(const seppo::Predictor& model, const World& world, int number, seppo::AttentionMaps* maps) {
  const seppo::UseMode eval(seppo::Mode::eval);
  const seppo::TapeMark mark;
  return argmax(scores(model, world.sets({&number, 1}).elements, maps))[0];
}

int parse_number(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  seppo::check<seppo::FormatError>(
      error == std::errc() && end == text.data() + text.size() && number >= 0 && number <= kMostSets, "set '",
      seppo::printable(text), "' is not a number 0-", kMostSets);
  return number;
}

}  // namespace odd_one
