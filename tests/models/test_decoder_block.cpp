// The decoder of language models: what its switches compute, and that without them it is the paper's.
// needs: precision: double; full: single
#include "support/precision.h"

#include <seppo/autograd/core/check.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/data/ragged.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace seppo;

namespace {

constexpr int kVocabulary = 11, kRows = 9;

LanguageModelConfig small() {
  return {.vocabulary = kVocabulary,
          .layer = {.d_model = 8,
                    .n_heads = 2,
                    .d_ff = 6,
                    .dropout = 0,
                    .norm = Norm::pre,
                    .activation = Activation::gelu_tanh,
                    .norm_kind = NormKind::rms},
          .n_layers = 2,
          .positions = Positions::rotary_halves,
          .max_length = 16};
}

Ragged text() { return Ragged::of({{1, 4, 2, 8, 5}, {7, 0, 10, 3}}); }

// Parameters of a model, none of which is 0 or 1.
template <class Model, class Config>
Model drawn(Parameters& parameters, const Config& config) {
  Model model(parameters.root(), config);
  RandomStream random(5, Purpose::test);
  for (real& value : parameters.edit()) value = static_cast<real>(0.4 * random.normal());
  return model;
}

std::vector<real> scores_of(const LanguageModelConfig& config) {
  Parameters parameters(1);
  const auto model = drawn<LanguageModel>(parameters, config);
  const Inference guard;
  const Tensor scores = model(text());
  return {scores.values().begin(), scores.values().end()};
}

std::vector<real> copy_of(const Tensor& x) { return {x.values().begin(), x.values().end()}; }

double largest_difference(const std::vector<real>& a, const std::vector<real>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_switches_it_is_an_encoder_layer_with_a_causal_mask) {
  for (const Norm norm : {Norm::pre, Norm::post}) {
    LayerConfig layer = small().layer;
    layer.norm = norm;
    Parameters ours(1), theirs(1);
    const DecoderStack stack(ours.root(), 2, layer, {});
    const Encoder encoder(theirs.root(), 2, layer);
    BOOST_REQUIRE(std::ranges::equal(ours.values(), theirs.values()));
    const Inference guard;
    RandomStream random(3, Purpose::test);
    const Tensor x = randn({kRows, 8}, random);
    const Tensor a = stack(x, {0, 5, 9});
    const Tensor b = encoder(x, {0, 5, 9}, {.mask = Mask::causal()});
    BOOST_CHECK(std::ranges::equal(a.values(), b.values()));
  }
}

// Each switch changes the scores, and gradients go through it.
BOOST_AUTO_TEST_CASE(every_switch_acts_and_has_gradients) {
  using Switch = void (*)(LanguageModelConfig&);
  const std::pair<const char*, Switch> switches[] = {
      {"around", [](auto& c) { c.decoder.norm_place = NormPlace::around; }},
      {"after", [](auto& c) { c.decoder.norm_place = NormPlace::after; }},
      {"side by side", [](auto& c) { c.decoder.sublayers = Sublayers::side_by_side; }},
      {"one norm", [](auto& c) { c.decoder.sublayers = Sublayers::side_by_side_one_norm; }},
      {"offset", [](auto& c) { c.decoder.norm_is_offset = true; }},
      {"no biases of q, k and v", [](auto& c) { c.decoder.qkv_bias = false; }},
      {"no bias of out", [](auto& c) { c.decoder.out_bias = false; }},
      {"no biases of the network", [](auto& c) { c.decoder.ffn_bias = false; }},
      {"embedding norm", [](auto& c) { c.decoder.embedding_norm = true; }},
      {"head width", [](auto& c) { c.layer.head_width = 6; }},
      {"norms of heads", [](auto& c) { c.decoder.qk_norm = QkNorm::head; }},
      {"norms of all heads", [](auto& c) { c.decoder.qk_norm = QkNorm::width; }},
      {"attention scale", [](auto& c) { c.decoder.attention_scale = 2; }},
      {"attention cap", [](auto& c) { c.decoder.attention_softcap = 0.3; }},
      {"share", [](auto& c) { c.decoder.rope.share = 0.5; }},
      {"linear", [](auto& c) { c.decoder.rope.scaling = {.kind = RotaryScale::linear, .factor = 3}; }},
      {"window",
       [](auto& c) {
         c.decoder.attentions = {{.window = 2}, {}};
       }},
      {"no positions",
       [](auto& c) {
         c.decoder.attentions = {{}, {.positions = LayerPositions::none}};
       }},
      {"local positions",
       [](auto& c) {
         c.decoder.attentions = {{.positions = LayerPositions::local}, {}};
         c.decoder.local_rope_theta = 5;
       }},
      {"scaled embedding", [](auto& c) { c.decoder.is_embedding_scaled = true; }},
      {"embedding scale", [](auto& c) { c.decoder.embedding_scale = 2; }},
      {"residual scale", [](auto& c) { c.decoder.residual_scale = 0.5; }},
      {"output scale", [](auto& c) { c.decoder.output_scale = 0.5; }},
      {"output cap", [](auto& c) { c.decoder.output_softcap = 0.3; }},
      {"experts", [](auto& c) { c.decoder.experts = 3; }}};
  const std::vector<real> plain = scores_of(small());
  for (const auto& [name, turn_on] : switches) BOOST_TEST_CONTEXT(name) {
      LanguageModelConfig config = small();
      turn_on(config);
      BOOST_CHECK_GT(largest_difference(plain, scores_of(config)), 1e-3);
      Parameters parameters(1);
      const auto model = drawn<LanguageModel>(parameters, config);
      const std::vector<int> targets{4, 2, 8, 5, 1, 0, 10, 3, 9};
      const auto report =
          test::check_gradients(parameters, [&] { return model.loss(model.features(text()), targets); });
      BOOST_CHECK_MESSAGE(report.passed, report.text);
    }
}

// What a sublayer adds is scaled, and a norm's weight offset, wherever norms stand: as if the weights were others.
BOOST_AUTO_TEST_CASE(scales_and_offsets_equal_other_weights) {
  for (const Norm norm : {Norm::pre, Norm::post})
    for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
      LanguageModelConfig config = small();
      config.layer.norm = norm;
      config.layer.norm_kind = kind;
      Parameters plain(1), switched(1);
      const auto expected = drawn<LanguageModel>(plain, config);
      config.decoder.residual_scale = 0.5;
      config.decoder.norm_is_offset = true;
      const auto found = drawn<LanguageModel>(switched, config);
      for (const auto& entry : plain.entries()) {
        const bool is_last =
            entry.name.find("out_proj") != std::string::npos || entry.name.find("down") != std::string::npos;
        const bool is_gain = entry.name.find("norm") != std::string::npos && entry.name.ends_with("weight");
        for (real& value : plain.edit().subspan(entry.offset, entry.size()))
          value = is_gain ? 1 + value : is_last ? value / 2 : value;
      }
      const Inference guard;
      BOOST_CHECK_LT(largest_difference(copy_of(expected(text())), copy_of(found(text()))), test::kTolerance);
    }
}

BOOST_AUTO_TEST_CASE(a_table_of_positions_may_begin_later) {
  LanguageModelConfig config = small();
  config.positions = Positions::learned;
  config.decoder.position_offset = 2;
  Parameters parameters(1), others(1);
  const auto later = drawn<LanguageModel>(parameters, config);
  config.decoder.position_offset = 0;
  const LanguageModel plain(others.root(), config);
  BOOST_REQUIRE_EQUAL(later.positions.table.size(0), config.max_length + 2);
  for (const auto& entry : others.entries()) {
    const auto from = parameters.find(entry.name)->tensor.values();
    std::ranges::copy(from.last(entry.size()), entry.tensor.data());  // the table without its first rows
  }
  const Inference guard;
  KeyValueCache cache = later.make_cache(2);
  const Tensor expected = plain(text());
  BOOST_CHECK(std::ranges::equal(later(text()).values(), expected.values()));
  later(Ragged::of({{1, 4, 2, 8}, {7, 0, 10}}), &cache);
  const Tensor last = later(Ragged::of({{5}, {3}}), &cache);
  for (const auto& [row, of_text] : {std::pair{0, 4}, {1, 8}})
    for (int j = 0; j < kVocabulary; ++j)
      BOOST_CHECK_SMALL(double{last.values()[static_cast<std::size_t>(row * kVocabulary + j)]} -
                            double{expected.values()[static_cast<std::size_t>(of_text * kVocabulary + j)]},
                        test::kTolerance);
}

// Local positions are those of a model whose common ones have their base and are not scaled.
BOOST_AUTO_TEST_CASE(local_positions_are_never_scaled) {
  LanguageModelConfig local = small();
  local.decoder.attentions = {{.positions = LayerPositions::local}, {.positions = LayerPositions::local}};
  local.decoder.local_rope_theta = 50;
  local.decoder.rope.scaling = {.kind = RotaryScale::linear, .factor = 3};
  LanguageModelConfig common = small();
  common.rope_theta = 50;
  BOOST_CHECK(scores_of(local) == scores_of(common));
}

// With a cache, windows of several positions at once, and of more than the cache has.
BOOST_AUTO_TEST_CASE(windows_with_a_cache) {
  LanguageModelConfig config = small();
  for (const int window : {1, 2, 3, 100}) {
    config.decoder.attentions = {{.window = window}, {.window = 2}};
    Parameters parameters(1);
    const auto model = drawn<LanguageModel>(parameters, config);
    const Inference guard;
    const Tensor whole = model(Ragged::of({{1, 4, 2, 8, 5, 7, 0, 10}}));
    KeyValueCache cache = model.make_cache(1);
    std::vector<Tensor> parts;
    for (const std::vector<int>& piece : std::vector<std::vector<int>>{{1, 4, 2}, {8}, {5, 7}, {0}, {10}}) {
      Ragged tokens;
      tokens.add(piece);
      parts.push_back(model(tokens, &cache));
    }
    const Tensor joined = concat(parts);
    for (std::size_t i = 0; i < whole.numel(); ++i)
      BOOST_CHECK_SMALL(double{joined.values()[i]} - double{whole.values()[i]}, test::kTolerance);
  }
}

BOOST_AUTO_TEST_CASE(the_loss_is_that_of_the_scores) {
  const std::vector<int> targets{4, 2, 8, 5, 1, 0, 10, 3, 9};
  for (const double cap : {0.0, 0.5})
    for (const bool has_bias : {false, true}) {
      LanguageModelConfig config = small();
      config.tie_output = false;
      config.decoder.output_softcap = cap;
      config.decoder.output_bias = has_bias;
      config.decoder.output_scale = 2;
      Parameters parameters(1);
      const auto model = drawn<LanguageModel>(parameters, config);
      const Inference guard;
      const Tensor scores = model(text());
      double correct = 0;
      const Tensor loss = model.loss(model.features(text()), targets, {.ignore_index = 3, .correct = &correct});
      const Tensor expected = cross_entropy(scores, targets, {.ignore_index = 3, .reduction = Reduction::sum});
      BOOST_CHECK_CLOSE(double{loss.item()}, double{expected.item()}, 100 * test::kTolerance);
      const std::vector<int> best = argmax(scores);
      double hits = 0;
      for (std::size_t i = 0; i < best.size(); ++i) hits += targets[i] != 3 && best[i] == targets[i];
      BOOST_CHECK_EQUAL(correct, hits);
    }
}

BOOST_AUTO_TEST_CASE(experts_are_chosen_and_weighed_by_their_scores) {
  Parameters parameters(1);
  const Experts experts(parameters.root(), 4, 6, {.experts = 5, .chosen = 2});
  RandomStream random(3, Purpose::test);
  const Inference guard;
  const Tensor x = randn({7, 4}, random);
  const Tensor scores = experts.router(x);
  const Tensor y = experts(x);
  std::vector<Tensor> all;
  for (const FeedForward& expert : experts.experts) all.push_back(expert(x));
  for (std::size_t r = 0; r < 7; ++r) {
    const auto score = [&](std::size_t e) { return double{scores.values()[r * 5 + e]}; };
    std::vector<std::size_t> order{0, 1, 2, 3, 4};
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return score(a) > score(b); });
    const double first = std::exp(score(order[0])), second = std::exp(score(order[1]));
    for (std::size_t c = 0; c < 4; ++c) {
      const double expected =
          (first * double{all[order[0]].values()[r * 4 + c]} + second * double{all[order[1]].values()[r * 4 + c]}) /
          (first + second);
      BOOST_CHECK_SMALL(double{y.values()[r * 4 + c]} - expected, 10 * test::kTolerance);
    }
  }
}

// Scores are of products of a query and a key: a gain of one is the same as of the other. So the two have their own.
BOOST_AUTO_TEST_CASE(norms_of_queries_and_keys_have_gains_of_their_own) {
  for (const QkNorm kind : {QkNorm::head, QkNorm::width}) {
    Parameters parameters(1);
    const MultiHeadAttention attention(parameters.root(), 8, 2,
                                       {.qk_norm = kind, .qk_norm_options = {.kind = NormKind::rms}});
    RandomStream random(3, Purpose::test);
    const Inference guard;
    const Tensor x = scale(randn({5, 8}, random), 2);
    const std::vector<int> offsets{0, 5};
    const auto with = [&](double q, double k) {
      const Tensor gains[] = {attention.q_norm->weight, attention.k_norm->weight};
      for (std::size_t i = 0; i < gains[0].numel(); ++i) {
        gains[0].data()[i] = static_cast<real>(1 + q * static_cast<double>(i));
        gains[1].data()[i] = static_cast<real>(1 + k * static_cast<double>(i));
      }
      parameters.changed();
      return copy_of(attention(x, offsets));
    };
    const std::vector<real> of_key = with(0, 0.7);
    BOOST_CHECK_SMALL(largest_difference(of_key, with(0.7, 0)), 20 * test::kTolerance);
    BOOST_CHECK_GT(largest_difference(of_key, with(0, 0)), 1e-3);
  }
}

// Gradients are those of all experts computed for all rows, with weight 0 where they are not chosen: those of an expert
// that no row chose are zeros.
BOOST_AUTO_TEST_CASE(experts_get_gradients_from_the_rows_that_chose_them) {
  constexpr int kExperts = 6, kRowsHere = 3;
  Parameters parameters(1);
  const Experts experts(parameters.root(), 4, 5, {.experts = kExperts, .chosen = 1});
  RandomStream random(3, Purpose::test);
  const Tensor x = randn({kRowsHere, 4}, random);
  const auto gradients = [&](const Tensor& y) {
    parameters.zero_gradients();
    backward(sum(square(y)));
    const auto all = parameters.gradients();
    return std::vector<real>(all.begin(), all.end());
  };
  const std::vector<int> chosen = argmax(experts.router(x));
  Tensor naive = zeros_like(x);
  for (int e = 0; e < kExperts; ++e) {
    std::vector<real> own;
    for (const int choice : chosen) own.push_back(choice == e ? 1 : 0);
    naive = naive + experts.experts[static_cast<std::size_t>(e)](x) * tensor({kRowsHere, 1}, own);
  }
  const std::vector<real> expected = gradients(naive);
  BOOST_CHECK_GT(std::ranges::count(expected, 0), 0);
  BOOST_CHECK_SMALL(largest_difference(gradients(experts(x)), expected), 10 * test::kTolerance);
}

BOOST_AUTO_TEST_CASE(of_equal_scores_the_first_experts_are_chosen) {
  Parameters parameters(1);
  const Experts experts(parameters.root(), 4, 6, {.experts = 3, .chosen = 1});
  std::ranges::fill(std::span(experts.router.weight.data(), experts.router.weight.numel()), real{0});
  RandomStream random(3, Purpose::test);
  const Inference guard;
  const Tensor x = randn({2, 4}, random);
  BOOST_CHECK(std::ranges::equal(experts(x).values(), experts.experts[0](x).values()));
}

BOOST_AUTO_TEST_CASE(configs_that_do_not_fit_are_refused) {
  Parameters parameters(1);
  const auto make = [&](const LanguageModelConfig& config) { return LanguageModel(parameters.root(), config); };
  LanguageModelConfig config = small();
  config.decoder.attentions = {{.window = 2}};
  BOOST_CHECK_THROW(make(config), ArgumentError);
  config = small();
  config.decoder.experts = 2;
  config.decoder.experts_chosen = 3;
  BOOST_CHECK_THROW(make(config), ArgumentError);
  config = small();
  config.layer.head_width = 1 << 30;
  BOOST_CHECK_THROW(make(config), ArgumentError);
  config = small();
  config.layer.head_width = 4;
  config.layer.n_kv_heads = 3;
  BOOST_CHECK_THROW(make(config), ArgumentError);
  for (const double share : {0.0, 0.4, 1e300, -1.0}) {  // of 4 columns
    config = small();
    config.decoder.rope.share = share;
    BOOST_CHECK_THROW(make(config), ArgumentError);
  }
}
