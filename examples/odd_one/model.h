// Finding the odd one in a set: nine elements of one kind, and one of another. A set has no order, so the encoder has
// no positions. It gives each element a score; a softmax over the scores predicts the odd one.
#pragma once

#include "encoder_graphs.h"

#include <cstdint>
#include <span>
#include <vector>

namespace odd_one {

using seppo::Tensor;

constexpr int kElements = 10;  // of a set

struct WorldConfig {
  int kinds = 100, features = 32;
  double noise = 1;

  void fields(seppo::ConfigVisitor& v) {
    v("kinds", kinds, {2, 1e5}, "kinds of elements");
    v("features", features, {1, 4096}, "numbers that describe an element");
    v("noise", noise, {0, 100}, "standard deviation of the elements of a kind about its centre; that of centres is 1");
  }
  void validate() const {
    constexpr std::int64_t kMost = 1 << 24;  // a tiny model file could ask for more
    seppo::check<seppo::ArgumentError>(std::int64_t{kinds} * features <= kMost, "odd_one: kinds ", kinds,
                                       " times features ", features, " are more than ", kMost, " numbers");
  }
};

// A kind is a random centre, an element a centre plus noise: N(0, 1) and N(0, noise^2) in each feature. (The UvA course
// uses features of images, whose kinds are the classes of CIFAR-100.)
struct World {
  World(std::uint64_t seed, const WorldConfig& config);

  // The elements of the sets with these numbers, [sets * kElements, features], and the index of the odd one in each.
  // Within a world, a set depends only on its number.
  struct Sets {
    Tensor elements;
    std::vector<int> odd;
  };
  Sets sets(std::span<const int> numbers) const;

  std::uint64_t seed;
  WorldConfig config;
  std::vector<float> centres;  // [kinds, features]
};

inline World::World(std::uint64_t seed, const WorldConfig& c) : seed(seed), config(seppo::check_config("odd_one", c)) {
  seppo::RandomStream random(seed, seppo::Purpose::data, 30);
  for (int i = 0; i < c.kinds * c.features; ++i) centres.push_back(static_cast<float>(random.normal()));
}

inline World::Sets World::sets(std::span<const int> numbers) const {
  Sets sets{seppo::zeros({static_cast<int>(numbers.size()) * kElements, config.features}), {}};
  float* element = sets.elements.data();
  const auto features = static_cast<std::size_t>(config.features);
  const auto kinds = static_cast<unsigned>(config.kinds);
  for (const int number : numbers) {
    seppo::RandomStream random(seed, seppo::Purpose::data, 31 + static_cast<std::uint64_t>(number));
    const unsigned kind = random.below(kinds), other = (kind + 1 + random.below(kinds - 1)) % kinds;
    sets.odd.push_back(static_cast<int>(random.below(kElements)));
    for (int i = 0; i < kElements; ++i) {
      const float* const centre = &centres[(i == sets.odd.back() ? other : kind) * features];
      for (std::size_t j = 0; j < features; ++j)
        *element++ = centre[j] + static_cast<float>(config.noise * random.normal());
    }
  }
  return sets;
}

struct ModelConfig {
  WorldConfig world;  // the model has a weight for each feature
  seppo::LayerConfig layer = {.d_model = 64, .n_heads = 4, .d_ff = 128, .dropout = 0.1};
  int n_layers = 2;

  void fields(seppo::ConfigVisitor& v) {
    world.fields(v);
    layer.fields(v);
    v("n_layers", n_layers, {1, 64}, "encoder layers");
  }
  void validate() const {
    world.validate();
    layer.validate();
  }
};

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& c)
      : config(c),
        predictor(s, {.features = c.world.features,
                      .classes = 1,
                      .layer = c.layer,
                      .n_layers = c.n_layers,
                      .input_dropout = c.layer.dropout,
                      .positions = seppo::Positions::none,
                      .max_length = kElements}) {}

  // A score for each element: elements [sets * kElements, features] -> [sets, kElements].
  Tensor operator()(const Tensor& elements) const {
    std::vector<int> rows;
    for (int row = 0; row <= elements.size(0); row += kElements) rows.push_back(row);
    return reshape(predictor(elements, rows), {-1, kElements});
  }

  ModelConfig config;
  examples::Predictor predictor;
};

// Elements [batch, 10, features] -> scores [batch, 10].
inline seppo::OnnxGraph onnx_graph(const Model& m) {
  seppo::OnnxGraph g("odd_one");
  const seppo::OnnxValue x = g.input("elements", seppo::OnnxType::reals, {"batch", kElements, m.config.world.features});
  const seppo::OnnxValue y =
      emit_classified(g, m.predictor, emit_encoded(g, m.predictor, emit(g, m.predictor.input, x)));
  const seppo::OnnxValue scores = g.op("Reshape", {y, g.integers({0, kElements})});
  g.output("scores", scores, seppo::OnnxType::reals, {"batch", kElements});
  return g;
}

}  // namespace odd_one
