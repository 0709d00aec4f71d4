// A small Transformer with a batch, for tests of whole models.
#pragma once

#include <seppo/models/transformer.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace small {

using namespace seppo;

constexpr int kVocabulary = 11;

inline TransformerConfig config(Norm norm = Norm::post) {
  return {.src_vocabulary = kVocabulary,
          .tgt_vocabulary = kVocabulary,
          .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12, .dropout = 0, .norm = norm},
          .enc_layers = 2,
          .dec_layers = 2,
          .max_length = 16};
}

inline Ragged random_batch(std::initializer_list<int> lengths, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  Ragged batch;
  for (const int length : lengths) {
    std::vector<int> sequence;
    for (int i = 0; i < length; ++i) sequence.push_back(static_cast<int>(random.below(kVocabulary)));
    batch.add(sequence);
  }
  return batch;
}

inline Ragged pick(const Ragged& batch, std::initializer_list<int> order) {
  return batch.pick(std::vector<int>(order));
}

inline std::vector<real> copy_of(const Tensor& x) { return {x.values().begin(), x.values().end()}; }

inline double largest_difference(std::span<const real> a, std::span<const real> b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
  return largest;
}

struct Fixture {
  explicit Fixture(const TransformerConfig& c = config()) : parameters(42), model(parameters.root(), c) {
    tape().clear();
    // Move biases and gains away from their symmetric initial values.
    RandomStream random(1, Purpose::test, 7);
    for (const auto& e : parameters.entries())
      if (e.shape.rank() == 1)
        for (std::size_t i = 0; i < e.size(); ++i)
          parameters.edit()[e.offset + i] += static_cast<real>(0.3 * random.normal());
  }
  Parameters parameters;
  Transformer model;
  Ragged src = random_batch({4, 1, 3}, 1), tgt = random_batch({3, 2, 4}, 2), next = random_batch({3, 2, 4}, 3);

  Tensor loss(const Ragged& s, const Ragged& t, const Ragged& n) const {
    return cross_entropy(model.logits(s, t), n.tokens, {.label_smoothing = 0.1, .reduction = Reduction::sum});
  }
  Tensor loss() const { return loss(src, tgt, next); }
  std::vector<real> gradient(const Tensor& of) {
    parameters.zero_gradients();
    tape().backward(of);
    return {parameters.gradients().begin(), parameters.gradients().end()};
  }
};

}  // namespace small
