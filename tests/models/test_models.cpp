// The Transformer: gradients in double precision, and the properties it must have.
// needs: precision: double; full: single
#include "models/small_transformer.h"
#include "support/precision.h"
#include "support/ranges.h"

#include <seppo/nn/optim/adam.h>

#include <functional>
#include <limits>
#include <string>

using namespace seppo;
using small::copy_of, small::Fixture, small::kVocabulary, small::largest_difference, small::pick, small::random_batch;

BOOST_AUTO_TEST_CASE(encoder_decoder_gradients) {
  for (const Norm norm : {Norm::post, Norm::pre})
    for (const bool shared : {false, true}) {
      TransformerConfig config = small::config(norm);
      config.share_embeddings = config.tie_output = shared;
      config.positions = shared ? Positions::learned : Positions::sinusoid;
      Fixture f(config);
      const auto report = test::check_gradients(f.parameters, [&] { return f.loss(); });
      BOOST_CHECK_MESSAGE(report.passed, report.text);
    }
}

// Dropout after the norm is an option of each Add & Norm that a program sets directly.
BOOST_AUTO_TEST_CASE(encoder_decoder_gradients_with_dropout) {
  for (const bool is_after_norm : {false, true}) {
    TransformerConfig config = small::config();
    config.layer.dropout = 0.3;
    Fixture f(config);
    const AddNormOptions after{.dropout_after = 0.3};
    if (is_after_norm) {
      for (EncoderLayer& l : f.model.encoder.layers) l.add_norm_1.options = l.add_norm_2.options = after;
      for (DecoderLayer& l : f.model.decoder.layers)
        l.add_norm_1.options = l.add_norm_2.options = l.add_norm_3.options = after;
    }
    tape().random = {5, 6, 7, 0};
    const auto memory = f.model.encode(f.src).values();  // an output of Add & Norm
    BOOST_CHECK_EQUAL(std::count(memory.begin(), memory.end(), 0.0) > 4, is_after_norm);
    const auto report = test::check_gradients(f.parameters, [&] { return f.loss(); });
    tape().random = {};
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  }
}

// Gradients with each option of the layers; test_option_reach.cpp tells what they change.
BOOST_AUTO_TEST_CASE(gradients_with_every_option_of_the_layers) {
  using Change = std::function<void(LayerConfig&)>;
  const std::vector<std::pair<const char*, Change>> changes{
      {"dropout", [](LayerConfig& c) { c.dropout = 0.3; }},
      {"attention_dropout", [](LayerConfig& c) { c.attention_dropout = 0.3; }},
      {"norm", [](LayerConfig& c) { c.norm = Norm::pre; }},
      {"activation", [](LayerConfig& c) { c.activation = Activation::gelu; }},
      {"bias", [](LayerConfig& c) { c.bias = false; }},
      {"eps", [](LayerConfig& c) { c.eps = 0.1; }},
      {"n_heads", [](LayerConfig& c) { c.n_heads = 4; }},
      {"n_kv_heads", [](LayerConfig& c) { c.n_kv_heads = 1; }},
      {"norm_kind", [](LayerConfig& c) { c.norm_kind = NormKind::rms; }},
      {"geglu", [](LayerConfig& c) { c.activation = Activation::geglu; }},
      {"d_ff", [](LayerConfig& c) { c.d_ff = 5; }},
      {"head_width", [](LayerConfig& c) { c.head_width = 3; }},
      {"attention_bias", [](LayerConfig& c) { c.attention_bias = false; }}};
  for (const auto& [name, change] : changes) {
    TransformerConfig config = small::config();
    change(config.layer);
    Fixture f(config);
    tape().random = {5, 6, 7, 0};
    for (const auto& entry : f.parameters.entries())
      BOOST_CHECK_MESSAGE(config.layer.bias || !entry.name.ends_with("bias"), entry.name);
    const auto report = test::check_gradients(f.parameters, [&] { return f.loss(); });
    tape().random = {};
    BOOST_CHECK_MESSAGE(report.passed, name << ": " << report.text);
  }
}

// Relative positions in the encoder and in the decoder's self-attention.
BOOST_AUTO_TEST_CASE(the_transformer_takes_relative_positions) {
  TransformerConfig config = small::config(Norm::pre);
  config.positions = Positions::none;
  const Fixture without(config);
  const std::vector<real> memory = copy_of(without.model.encode(without.src));
  const std::vector<real> logits = copy_of(without.model.logits(without.src, without.tgt));
  for (const Positions positions : {Positions::rotary, Positions::rotary_halves, Positions::alibi}) {
    config.positions = positions;
    Fixture f(config);
    BOOST_CHECK_GT(largest_difference(f.model.encode(f.src).values(), memory), 1e-4);
    const Tensor of_same_memory = f.model.decode(f.tgt, tensor({8, 8}, memory), f.src.offsets);
    BOOST_CHECK_GT(largest_difference(of_same_memory.values(), logits), 1e-4);
    const auto report = test::check_gradients(f.parameters, [&] { return f.loss(); });
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  }
}

// With the norms' initial gain and bias, rows leave either stack with mean 0 and variance 1, or mean square 1.
BOOST_AUTO_TEST_CASE(both_stacks_end_with_a_norm) {
  for (const auto& [norm, kind] : {std::pair{Norm::post, NormKind::layer},
                                   {Norm::pre, NormKind::layer},
                                   {Norm::post, NormKind::rms},
                                   {Norm::pre, NormKind::rms}}) {
    Parameters parameters(1);
    LayerConfig layer = small::config(norm).layer;
    layer.norm_kind = kind;
    const Encoder encoder(parameters.root() / "encoder", 2, layer);
    const Decoder decoder(parameters.root() / "decoder", 2, layer);
    for (const char* name : {"encoder.norm.weight", "decoder.norm.weight"})
      BOOST_CHECK_EQUAL(parameters.find(name) != nullptr, norm == Norm::pre);
    RandomStream random(3, Purpose::test);
    std::vector<real> values;
    for (int i = 0; i < 7 * 8; ++i) values.push_back(static_cast<real>(3 * random.normal() + 1));
    tape().clear();
    const Tensor x = tensor({7, 8}, values);
    const std::vector<int> rows{0, 3, 7};
    for (const Tensor& y : {encoder(x, rows), decoder(x, rows, x, rows)}) {
      const Tensor means = mean(y, 1), variances = var(y, 1, 0);
      for (std::size_t r = 0; r < 7; ++r) {
        const double m{means.values()[r]};
        BOOST_CHECK(kind == NormKind::layer ? std::abs(m) < test::kTolerance : std::abs(m) > 1e-4);
        BOOST_CHECK_SMALL(double{variances.values()[r]} + m * m - 1, 1e-3);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_decoder_refuses_masks_that_it_would_ignore) {
  Parameters parameters(1);
  const Decoder decoder(parameters.root(), 1, small::config(Norm::post).layer);
  const std::vector<int> offsets{0, 3, 7}, lengths{1, 2};
  const std::vector<std::uint8_t> pairs(9 + 16, 1);
  tape().clear();
  const Tensor x = ones({7, 8});
  const auto call = [&](const Mask& mask) { decoder(x, offsets, x, offsets, {.mask = mask}); };
  BOOST_CHECK_THROW(call(Mask::valid_lengths(lengths)), ArgumentError);
  BOOST_CHECK_THROW(call(Mask::valid_query_lengths(lengths)), ArgumentError);
  BOOST_CHECK_THROW(call(Mask::allowed(pairs)), ArgumentError);
  BOOST_CHECK_NO_THROW(call(Mask::causal()));
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
      const bool may_change = row >= changed && row < 3;  // same sequence, at or after the change
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
      norm += double{std::abs(f.parameters.gradients()[entry->offset + static_cast<std::size_t>(token) * 8 + c])};
    BOOST_CHECK_MESSAGE(token <= 1 ? norm > 0 : norm == 0, "token " << token << ": " << norm);
  }
}

BOOST_AUTO_TEST_CASE(batches_permute_split_and_repeat) {
  Fixture f;
  const auto whole = f.gradient(f.loss());
  const double loss{f.loss().item()};
  // permuted
  const auto permuted = f.gradient(f.loss(pick(f.src, {2, 0, 1}), pick(f.tgt, {2, 0, 1}), pick(f.next, {2, 0, 1})));
  BOOST_CHECK_SMALL(largest_difference(whole, permuted), test::kTolerance);
  // split: sums add up, also across backward passes
  f.parameters.zero_gradients();
  double parts = 0;
  for (const int s : {0, 1, 2}) {
    const Tensor part = f.loss(pick(f.src, {s}), pick(f.tgt, {s}), pick(f.next, {s}));
    parts += double{part.item()};
    tape().backward(part);
  }
  BOOST_CHECK_SMALL(parts - loss, test::kTolerance);
  BOOST_CHECK_SMALL(largest_difference(whole, f.parameters.gradients()), test::kTolerance);
  // repeated
  const auto twice = f.gradient(
      f.loss(pick(f.src, {0, 1, 2, 0, 1, 2}), pick(f.tgt, {0, 1, 2, 0, 1, 2}), pick(f.next, {0, 1, 2, 0, 1, 2})));
  for (std::size_t i = 0; i < whole.size(); ++i) BOOST_CHECK_SMALL(double{twice[i] - 2 * whole[i]}, test::kTolerance);
}

BOOST_AUTO_TEST_CASE(every_parameter_gets_a_gradient_and_the_source_matters) {
  Fixture f;
  const auto gradient = f.gradient(f.loss());
  for (const auto& e : f.parameters.entries()) {
    double norm = 0;
    for (std::size_t i = 0; i < e.size(); ++i) norm += double{std::abs(gradient[e.offset + i])};
    BOOST_CHECK_MESSAGE(norm > 1e-8, e.name << " has gradient " << norm);
  }
  Ragged other = f.src;
  other.tokens[0] = (other.tokens[0] + 1) % kVocabulary;
  BOOST_CHECK_GT(largest_difference(f.model.logits(f.src, f.tgt).values(), f.model.logits(other, f.tgt).values()),
                 1e-3);
}

BOOST_AUTO_TEST_CASE(without_positions_the_encoder_is_permutation_equivariant) {
  for (const Positions positions : {Positions::none, Positions::sinusoid}) {
    TransformerConfig config = small::config();
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
    BOOST_CHECK(positions == Positions::none ? difference < test::kTolerance : difference > 1e-2);
  }
}

BOOST_AUTO_TEST_CASE(tied_embeddings_add_the_gradients_of_both_uses) {
  TransformerConfig separate = small::config();
  TransformerConfig tied = small::config();
  tied.share_embeddings = true;
  Fixture a(separate), b(tied);
  for (const Fixture* f : {&a, &b})
    BOOST_CHECK_EQUAL(f->model.src_embedding.weight.data() == f->model.tgt_embedding.weight.data(), f == &b);
  // The same values everywhere; both tables of `a` equal the single one of `b`.
  const auto copy = [&](const char* from, const char* to) {
    const auto *source = b.parameters.find(from), *target = a.parameters.find(to);
    std::copy_n(b.parameters.values().begin() + static_cast<std::ptrdiff_t>(source->offset), source->size(),
                a.parameters.edit().begin() + static_cast<std::ptrdiff_t>(target->offset));
  };
  copy("embedding.weight", "src_embedding.weight");
  copy("embedding.weight", "tgt_embedding.weight");
  for (const auto& e : b.parameters.entries())
    if (e.name != "embedding.weight") copy(e.name.c_str(), e.name.c_str());
  const auto ga = a.gradient(a.loss()), gb = b.gradient(b.loss());
  const auto *src = a.parameters.find("src_embedding.weight"), *tgt = a.parameters.find("tgt_embedding.weight"),
             *both = b.parameters.find("embedding.weight");
  for (std::size_t i = 0; i < both->size(); ++i)
    BOOST_CHECK_SMALL(double{ga[src->offset + i] + ga[tgt->offset + i] - gb[both->offset + i]}, test::kTolerance);
}

// An unknown token is reported with the name of the table it was looked up in, even if tables are shared.
BOOST_AUTO_TEST_CASE(errors_name_the_embedding) {
  for (const bool shared : {false, true}) {
    TransformerConfig config = small::config();
    config.share_embeddings = shared;
    const Fixture f(config);
    const auto names = [](std::string name) {
      return [name = "(in " + name + ")"](const std::exception& e) {
        return std::string(e.what()).find(name) != std::string::npos;
      };
    };
    for (const int id : {-1, kVocabulary, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
      Ragged bad;
      bad.add(std::vector<int>{0, id});
      BOOST_CHECK_EXCEPTION(f.model.encode(bad), IndexError, names(shared ? "embedding" : "src_embedding"));
      BOOST_CHECK_EXCEPTION(f.model.logits(f.src, bad), IndexError, names(shared ? "embedding" : "tgt_embedding"));
    }
  }
}

BOOST_AUTO_TEST_CASE(embeddings_start_as_documented) {
  for (const bool scaled : {false, true}) {
    TransformerConfig config = small::config();
    config.src_vocabulary = 2000;
    config.scale_embeddings = scaled;
    Parameters parameters(1);
    const Transformer model(parameters.root(), config);
    double squares = 0;
    for (const real v : model.src_embedding.weight.values()) squares += double{v} * double{v};
    const double expected = scaled ? 1.0 / config.layer.d_model : 1;
    BOOST_CHECK_CLOSE(squares / static_cast<double>(model.src_embedding.weight.numel()), expected, 5.0);
  }
}

BOOST_AUTO_TEST_CASE(the_initial_loss_is_that_of_guessing) {
  // Wide, with tied embeddings as in the paper, so that logits start small.
  Parameters parameters(3);
  const Transformer model(parameters.root(), {.src_vocabulary = kVocabulary,
                                              .tgt_vocabulary = kVocabulary,
                                              .layer = {.d_model = 64, .n_heads = 4, .d_ff = 64, .dropout = 0},
                                              .enc_layers = 2,
                                              .dec_layers = 2,
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
  TransformerConfig config = small::config();
  config.layer.n_heads = 3;
  BOOST_CHECK_THROW(Transformer(parameters.root() / "a", config), ArgumentError);
  config.layer.head_width = 4;
  BOOST_CHECK_NO_THROW(Transformer(parameters.root() / "b", config));
  config.layer.n_heads = config.layer.head_width = 65536;
  BOOST_CHECK_THROW(Transformer(parameters.root() / "d", config), ArgumentError);
  config = small::config();
  config.tgt_vocabulary = 3;
  config.share_embeddings = true;
  BOOST_CHECK_THROW(Transformer(parameters.root() / "c", config), ArgumentError);
  test::check_ranges(small::config(), [](const TransformerConfig& c) {
    Parameters none(0);
    Transformer(none.root(), c);
  });
  Fixture f(small::config(Norm::pre));
  f.model.encoder.layers[0].add_norm_1.options.dropout_after = 0.1;  // makes no sense with pre-norm
  BOOST_CHECK_THROW(f.model.encode(f.src), ArgumentError);
  const Ragged longer = random_batch({17}, 1);
  BOOST_CHECK_THROW(f.model.encode(longer), IndexError);
}
