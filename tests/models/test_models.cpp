// Whole models: gradients in double precision, and the properties a Transformer must have.
#define BOOST_TEST_MODULE models
#include <seppo/autograd/tools/gradient_check.h>
#include <seppo/models/classifier.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/optim/adam.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

using namespace seppo;

namespace {

constexpr int kVocabulary = 11;

TransformerConfig small(Norm norm = Norm::post) {
  return {.src_vocabulary = kVocabulary,
          .tgt_vocabulary = kVocabulary,
          .d_model = 8,
          .n_heads = 2,
          .d_ff = 12,
          .enc_layers = 2,
          .dec_layers = 2,
          .dropout = 0,
          .norm = norm,
          .max_length = 16};
}

Ragged random_batch(std::initializer_list<int> lengths, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  Ragged batch;
  for (const int length : lengths) {
    std::vector<int> sequence;
    for (int i = 0; i < length; ++i) sequence.push_back(static_cast<int>(random.below(kVocabulary)));
    batch.add(sequence);
  }
  return batch;
}

struct Fixture {
  explicit Fixture(const TransformerConfig& config = small()) : parameters(42), model(parameters.root(), config) {
    tape().clear();
    // Biases and gains away from their symmetric initial values.
    RandomStream random(1, Purpose::test, 7);
    for (const auto& e : parameters.entries())
      if (e.shape.rank() == 1)
        for (std::size_t i = 0; i < e.size(); ++i) parameters.values()[e.offset + i] += 0.3 * random.normal();
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

double largest_difference(std::span<const real> a, std::span<const real> b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

Ragged pick(const Ragged& batch, std::initializer_list<int> order) {
  Ragged picked;
  for (const int s : order) picked.add(batch[static_cast<std::size_t>(s)]);
  return picked;
}

}  // namespace

BOOST_AUTO_TEST_CASE(encoder_decoder_gradients) {
  for (const Norm norm : {Norm::post, Norm::pre})
    for (const bool shared : {false, true}) {
      TransformerConfig config = small(norm);
      config.share_embeddings = config.tie_output = shared;
      config.positions = shared ? Positions::learned : Positions::sinusoid;
      Fixture f(config);
      const auto report = gradient_check(f.parameters.values(), f.parameters.gradients(), [&] { return f.loss(); });
      BOOST_CHECK_MESSAGE(report.passed, report.text);
    }
}

BOOST_AUTO_TEST_CASE(encoder_decoder_gradients_with_dropout) {
  for (const DropoutPlace place : {DropoutPlace::before_residual, DropoutPlace::after_norm}) {
    TransformerConfig config = small();
    config.dropout = 0.3;
    config.dropout_place = place;
    Fixture f(config);
    tape().random = {5, 6, 7, 0};
    const auto report = gradient_check(f.parameters.values(), f.parameters.gradients(), [&] { return f.loss(); });
    tape().random = {};
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  }
}

PredictorConfig small_predictor() {
  return {
      .features = kVocabulary, .classes = 5, .d_model = 8, .n_heads = 2, .d_ff = 12, .n_layers = 2, .max_length = 8};
}

BOOST_AUTO_TEST_CASE(predictor_gradients) {
  std::vector<PredictorConfig> configs(3, small_predictor());
  configs[1].norm = Norm::pre;
  configs[2].shares_norm = true;
  configs[2].dropout_place = DropoutPlace::after_norm;
  configs[2].has_output_network = false;
  configs[2].dropout = configs[2].input_dropout = 0.2;
  for (const PredictorConfig& config : configs) {
    Parameters parameters(1);
    const Predictor model(parameters.root(), config);
    const Ragged batch = random_batch({4, 2, 5}, 1);
    std::vector<int> targets;
    for (const int token : batch.tokens) targets.push_back(token % 5);
    const auto report = gradient_check(parameters.values(), parameters.gradients(), [&] {
      return cross_entropy(model(one_hot(batch.tokens, kVocabulary), batch.offsets), targets);
    });
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  }
}

BOOST_AUTO_TEST_CASE(classifier_gradients) {
  const std::vector<int> targets{3, 0, 4};
  for (const Pooling pooling : {Pooling::class_token, Pooling::mean, Pooling::max}) {
    Parameters parameters(1);
    const Classifier model(parameters.root(), small_predictor(), pooling);
    const Ragged batch = random_batch({4, 8, 1}, 1);  // of which one is as long as may be
    const auto report = gradient_check(parameters.values(), parameters.gradients(), [&] {
      return cross_entropy(model(one_hot(batch.tokens, kVocabulary), batch.offsets), targets);
    });
    BOOST_CHECK_MESSAGE(report.passed, report.text);
    if (model.class_token.empty()) continue;
    const auto gradient = model.class_token.front().grad();
    BOOST_CHECK(std::any_of(gradient.begin(), gradient.end(), [](real g) { return g != 0; }));
  }
}

BOOST_AUTO_TEST_CASE(the_decoder_cannot_see_the_future) {
  Fixture f;
  const Tensor first = f.model.logits(f.src, f.tgt);
  const std::vector<real> before(first.values().begin(), first.values().end());
  for (std::size_t changed = 0; changed < 3; ++changed) {
    Ragged tgt = f.tgt;
    tgt.tokens[changed] = (tgt.tokens[changed] + 1) % kVocabulary;
    const auto after = f.model.logits(f.src, tgt).values();
    for (std::size_t row = 0; row < f.tgt.tokens.size(); ++row) {
      const bool same = std::equal(after.begin() + static_cast<std::ptrdiff_t>(row * kVocabulary),
                                   after.begin() + static_cast<std::ptrdiff_t>((row + 1) * kVocabulary),
                                   before.begin() + static_cast<std::ptrdiff_t>(row * kVocabulary));
      const bool may_change = row >= changed && row < 3;  // the same sequence, from the change on
      BOOST_CHECK_MESSAGE(same != may_change, "token " << changed << " changed, row " << row);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_gradient_reaches_future_embeddings) {
  Fixture f;
  Ragged src, tgt;
  src.add(std::vector<int>{0, 1});
  tgt.add(std::vector<int>{0, 1, 2, 3});
  const Tensor logits = f.model.logits(src, tgt);
  f.parameters.zero_gradients();
  std::vector<real> cotangent(logits.numel(), 0);
  for (std::size_t j = 0; j < kVocabulary; ++j)
    cotangent[1 * kVocabulary + j] = static_cast<real>(j + 1);  // row 1 only
  tape().backward(logits, cotangent);
  const auto* entry = f.parameters.find("tgt_embedding.weight");
  for (int token = 0; token < 4; ++token) {
    double norm = 0;
    for (std::size_t c = 0; c < 8; ++c)
      norm += std::abs(f.parameters.gradients()[entry->offset + static_cast<std::size_t>(token) * 8 + c]);
    BOOST_CHECK_MESSAGE(token <= 1 ? norm > 0 : norm == 0, "token " << token << ": " << norm);
  }
}

BOOST_AUTO_TEST_CASE(batches_permute_split_and_repeat) {
  Fixture f;
  const auto whole = f.gradient(f.loss());
  const double loss = f.loss().item();
  // permuted
  const auto permuted = f.gradient(f.loss(pick(f.src, {2, 0, 1}), pick(f.tgt, {2, 0, 1}), pick(f.next, {2, 0, 1})));
  BOOST_CHECK_SMALL(largest_difference(whole, permuted), 1e-12);
  // split: sums add up, also over backward passes
  f.parameters.zero_gradients();
  double parts = 0;
  for (const int s : {0, 1, 2}) {
    const Tensor part = f.loss(pick(f.src, {s}), pick(f.tgt, {s}), pick(f.next, {s}));
    parts += part.item();
    tape().backward(part);
  }
  BOOST_CHECK_SMALL(parts - loss, 1e-12);
  BOOST_CHECK_SMALL(largest_difference(whole, f.parameters.gradients()), 1e-12);
  // repeated
  const auto twice = f.gradient(
      f.loss(pick(f.src, {0, 1, 2, 0, 1, 2}), pick(f.tgt, {0, 1, 2, 0, 1, 2}), pick(f.next, {0, 1, 2, 0, 1, 2})));
  for (std::size_t i = 0; i < whole.size(); ++i) BOOST_CHECK_SMALL(twice[i] - 2 * whole[i], 1e-12);
}

BOOST_AUTO_TEST_CASE(every_parameter_gets_a_gradient_and_the_source_matters) {
  Fixture f;
  const auto gradient = f.gradient(f.loss());
  for (const auto& e : f.parameters.entries()) {
    double norm = 0;
    for (std::size_t i = 0; i < e.size(); ++i) norm += std::abs(gradient[e.offset + i]);
    BOOST_CHECK_MESSAGE(norm > 1e-8, e.name << " has gradient " << norm);
  }
  Ragged other = f.src;
  other.tokens[0] = (other.tokens[0] + 1) % kVocabulary;
  BOOST_CHECK_GT(largest_difference(f.model.logits(f.src, f.tgt).values(), f.model.logits(other, f.tgt).values()),
                 1e-3);
}

BOOST_AUTO_TEST_CASE(without_positions_the_encoder_is_permutation_equivariant) {
  for (const Positions positions : {Positions::none, Positions::sinusoid}) {
    TransformerConfig config = small();
    config.positions = positions;
    Fixture f(config);
    Ragged a, b;
    a.add(std::vector<int>{1, 2, 3, 4});
    b.add(std::vector<int>{3, 1, 4, 2});
    const auto x = f.model.encode(a).values(), y = f.model.encode(b).values();
    const std::size_t from[] = {2, 0, 3, 1};  // row i of b is row from[i] of a
    double difference = 0;
    for (std::size_t i = 0; i < 4; ++i)
      difference = std::max(difference, largest_difference(y.subspan(i * 8, 8), x.subspan(from[i] * 8, 8)));
    BOOST_CHECK(positions == Positions::none ? difference < 1e-12 : difference > 1e-2);
  }
}

BOOST_AUTO_TEST_CASE(tied_embeddings_add_the_gradients_of_both_uses) {
  TransformerConfig separate = small();
  TransformerConfig tied = small();
  tied.share_embeddings = true;
  Fixture a(separate), b(tied);
  // The same values everywhere; both tables of `a` equal the one of `b`.
  const auto copy = [&](const char* from, const char* to) {
    const auto *source = b.parameters.find(from), *target = a.parameters.find(to);
    std::copy_n(b.parameters.values().begin() + static_cast<std::ptrdiff_t>(source->offset), source->size(),
                a.parameters.values().begin() + static_cast<std::ptrdiff_t>(target->offset));
  };
  copy("embedding.weight", "src_embedding.weight");
  copy("embedding.weight", "tgt_embedding.weight");
  for (const auto& e : b.parameters.entries())
    if (e.name != "embedding.weight") copy(e.name.c_str(), e.name.c_str());
  const auto ga = a.gradient(a.loss()), gb = b.gradient(b.loss());
  const auto *src = a.parameters.find("src_embedding.weight"), *tgt = a.parameters.find("tgt_embedding.weight"),
             *both = b.parameters.find("embedding.weight");
  for (std::size_t i = 0; i < both->size(); ++i)
    BOOST_CHECK_SMALL(ga[src->offset + i] + ga[tgt->offset + i] - gb[both->offset + i], 1e-12);
}

BOOST_AUTO_TEST_CASE(attention_maps_come_from_every_layer_and_head) {
  Fixture f;
  AttentionMaps maps;
  const Tensor with = f.model.logits(f.src, f.tgt, &maps);
  const Tensor without = f.model.logits(f.src, f.tgt);
  BOOST_CHECK_EQUAL(largest_difference(with.values(), without.values()), 0);
  std::vector<std::string> names;
  for (const AttentionMap& map : maps) {
    names.push_back(map.name);
    const auto sequences = static_cast<std::size_t>(map.shape[0]), heads = static_cast<std::size_t>(map.shape[1]),
               queries = static_cast<std::size_t>(map.shape[2]), keys = static_cast<std::size_t>(map.shape[3]);
    BOOST_CHECK(sequences == 3 && heads == 2);
    const bool over_source =
        map.name.find("decoder") == std::string::npos || map.name.find("cross") != std::string::npos;
    const Ragged &q = map.name.find("encoder.") == 0 ? f.src : f.tgt, &k = over_source ? f.src : f.tgt;
    for (std::size_t row = 0; row < sequences * heads * queries; ++row) {
      const double total = std::accumulate(map.weights.begin() + static_cast<std::ptrdiff_t>(row * keys),
                                           map.weights.begin() + static_cast<std::ptrdiff_t>((row + 1) * keys), 0.0);
      const bool real_row = row % queries < q[row / queries / heads].size();
      BOOST_CHECK_SMALL(total - (real_row ? 1 : 0), 1e-12);
      for (std::size_t j = k[row / queries / heads].size(); j < keys; ++j)
        BOOST_CHECK_EQUAL(map.weights[row * keys + j], 0);
    }
  }
  const std::vector<std::string> expected{"encoder.0.self_attn",  "encoder.1.self_attn", "decoder.0.self_attn",
                                          "decoder.0.cross_attn", "decoder.1.self_attn", "decoder.1.cross_attn"};
  BOOST_CHECK(names == expected);
}

// With dropout after the norm the embedded inputs are left alone; else they are dropped like sublayers.
BOOST_AUTO_TEST_CASE(embedded_inputs_are_dropped_where_documented) {
  for (const DropoutPlace place : {DropoutPlace::before_residual, DropoutPlace::after_norm}) {
    TransformerConfig config = small();
    config.dropout = 0.5;
    config.dropout_place = place;
    Fixture f(config);
    tape().random = {5, 6, 7, 0};
    const Tensor x = f.model.embed(f.model.src_embedding, f.src.tokens, f.model.positions.ids(f.src.offsets));
    const auto zeros = std::count(x.values().begin(), x.values().end(), 0.0);
    BOOST_CHECK(place == DropoutPlace::after_norm ? zeros < 8 : zeros > 16);
    tape().random = {};
  }
}

BOOST_AUTO_TEST_CASE(embeddings_start_as_documented) {
  for (const bool scaled : {false, true}) {
    TransformerConfig config = small();
    config.src_vocabulary = 2000;
    config.scale_embeddings = scaled;
    Parameters parameters(1);
    const Transformer model(parameters.root(), config);
    double squares = 0;
    for (const real v : model.src_embedding.values()) squares += v * v;
    const double expected = scaled ? 1.0 / config.d_model : 1;
    BOOST_CHECK_CLOSE(squares / static_cast<double>(model.src_embedding.numel()), expected, 5.0);
  }
}

BOOST_AUTO_TEST_CASE(the_initial_loss_is_that_of_guessing) {
  // Wide and tied as in the paper, so that logits start small.
  Parameters parameters(3);
  const Transformer model(parameters.root(), {.src_vocabulary = kVocabulary,
                                              .tgt_vocabulary = kVocabulary,
                                              .d_model = 64,
                                              .n_heads = 4,
                                              .d_ff = 64,
                                              .enc_layers = 2,
                                              .dec_layers = 2,
                                              .dropout = 0,
                                              .norm = Norm::post,
                                              .max_length = 16,
                                              .share_embeddings = true});
  const Ragged src = random_batch({8, 8, 8, 8}, 1), tgt = random_batch({8, 8, 8, 8}, 2),
               next = random_batch({8, 8, 8, 8}, 3);
  tape().clear();
  const double loss = cross_entropy(model.logits(src, tgt), next.tokens).item();
  BOOST_CHECK_LT(loss, 1.6 * std::log(kVocabulary));
  BOOST_CHECK_GT(loss, 0.8 * std::log(kVocabulary));
}

BOOST_AUTO_TEST_CASE(one_batch_can_be_learnt_by_heart) {
  Fixture f;
  Adam adam(f.parameters);
  double loss = 0;
  for (int step = 0; step < 400; ++step) {
    tape().clear();
    const Tensor l = cross_entropy(f.model.logits(f.src, f.tgt), f.next.tokens);
    loss = l.item();
    tape().backward(l);
    adam.step(1e-2);
  }
  BOOST_CHECK_LT(loss, 1e-3);
}

BOOST_AUTO_TEST_CASE(bad_configurations_are_refused) {
  Parameters parameters(0);
  TransformerConfig config = small();
  config.n_heads = 3;
  BOOST_CHECK_THROW(Transformer(parameters.root() / "a", config), ArgumentError);
  config = small();
  config.src_vocabulary = 0;
  BOOST_CHECK_THROW(Transformer(parameters.root() / "b", config), ArgumentError);
  config = small();
  config.tgt_vocabulary = 3;
  config.share_embeddings = true;
  BOOST_CHECK_THROW(Transformer(parameters.root() / "c", config), ArgumentError);
  config = small();
  config.dropout = 1.5;
  BOOST_CHECK_THROW(Transformer(parameters.root() / "d", config), ArgumentError);
  config = small(Norm::pre);
  config.dropout_place = DropoutPlace::after_norm;
  BOOST_CHECK_THROW(Transformer(parameters.root() / "e", config), ArgumentError);
  Fixture f;
  const Ragged longer = random_batch({17}, 1);
  BOOST_CHECK_THROW(f.model.encode(longer), IndexError);
}
