#include "odd_one/model.h"

#include "common/training.h"

#include <seppo/autograd/parallel.h>

#include <algorithm>
#include <numeric>

namespace odd_one {

using seppo::Tensor;

World::World(std::uint64_t seed, int kinds, int features, double noise)
    : seed(seed), kinds(kinds), features(features), noise(noise) {
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
  for (int row = 0; row <= elements.dim(0); row += kElements) rows.push_back(row);
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

}  // namespace odd_one
