// Finding the odd one in a set: nine elements of one kind, and one of another. A set has no order, so the encoder has
// no positions, gives each element a score, and a softmax over the elements says which it is.
#pragma once

#include <seppo/models/predictor.h>
#include <seppo/nn/train/data_parallel.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace odd_one {

constexpr int kElements = 10;  // of a set

constexpr int kMostSets = 1'000'000'000;

struct Options {
  int kinds = 100, features = 32;
  double noise = 1;
  int d_model = 64, n_heads = 4, n_layers = 2;
  double dropout = 0.1;

  nlohmann::json to_json() const;
  static Options from_json(const nlohmann::json& config);
  seppo::PredictorConfig predictor() const;
};

// Kinds are random centres, elements a centre and noise: N(0, 1) and N(0, noise^2) in each feature. (The UvA course
// has features of images, whose kinds are classes of CIFAR100.)
struct World {
  World(std::uint64_t seed, const Options& options);

  // The features of the elements of the sets of these numbers, [sets * kElements, features], and the place of the odd
  // one in each. A set depends on its number, nothing else.
  struct Sets {
    seppo::Tensor elements;
    std::vector<int> odd;
  };
  Sets sets(std::span<const int> numbers) const;

  std::uint64_t seed;
  int kinds, features;
  double noise;
  std::vector<float> centres;  // [kinds, features]
};

// A score for each element, [sets, kElements]; elements [sets * kElements, features].
seppo::Tensor scores(const seppo::Predictor& model, const seppo::Tensor& elements,
                     seppo::AttentionMaps* maps = nullptr);

// Cross-entropy of the odd one's place in these sets, summed.
seppo::ShardLoss loss(const seppo::Predictor& model, const World& world, std::span<const int> numbers);
// The share of the sets first .. first + count - 1 in which the odd one is found.
double accuracy(const seppo::Predictor& model, const World& world, int first, int count);
// The place of the element that the model finds odd in this set; with `maps`, the attention weights.
int answer(const seppo::Predictor& model, const World& world, int number, seppo::AttentionMaps* maps = nullptr);

// A set's number; throws seppo::FormatError for anything else than 0 .. kMostSets.
int parse_number(std::string_view text);

}  // namespace odd_one
