// The decoder-only model in every form, from GPT-2's to LLaMA's, with and without a cache.
// needs: precision: double; full: single
#include "models/small_transformer.h"
#include "support/precision.h"

#include <seppo/models/language_model.h>

#include <nlohmann/json.hpp>

#include <array>

using namespace seppo;
using small::copy_of, small::kVocabulary, small::largest_difference, small::random_batch;

namespace {

constexpr std::array kPositions{Positions::none,   Positions::sinusoid,      Positions::cosinusoid, Positions::learned,
                                Positions::rotary, Positions::rotary_halves, Positions::alibi};
constexpr std::array kActivations{Activation::relu, Activation::gelu,   Activation::gelu_tanh,
                                  Activation::silu, Activation::swiglu, Activation::geglu};

LanguageModelConfig llama(Positions positions = Positions::rotary) {
  return {.vocabulary = kVocabulary,
          .layer = {.d_model = 16,
                    .n_heads = 4,
                    .d_ff = 12,
                    .dropout = 0,
                    .norm = Norm::pre,
                    .activation = Activation::swiglu,
                    .bias = false,
                    .n_kv_heads = 2,
                    .norm_kind = NormKind::rms},
          .n_layers = 2,
          .positions = positions,
          .max_length = 16,
          .rope_theta = 100,
          .tie_output = false};
}

LanguageModelConfig gpt2() {
  return {.vocabulary = kVocabulary,
          .layer = {.d_model = 8,
                    .n_heads = 2,
                    .d_ff = 32,
                    .dropout = 0,
                    .norm = Norm::pre,
                    .activation = Activation::gelu_tanh},
          .n_layers = 2,
          .max_length = 16};
}

// Weights large enough to make attention selective, and gains away from 1.
struct Model {
  explicit Model(const LanguageModelConfig& c) : parameters(3), model(parameters.root(), c) {
    tape().clear();
    RandomStream random(1, Purpose::test, 3);
    for (const auto& e : parameters.entries())
      for (real& v : parameters.edit().subspan(e.offset, e.size()))
        v += static_cast<real>((e.shape.rank() == 1 ? 0.3 : 0.2) * random.normal());
  }
  Parameters parameters;
  LanguageModel model;
};

std::vector<std::string> names_of(const LanguageModelConfig& config) {
  Parameters parameters(0);
  const LanguageModel model(parameters.root(), config);
  std::vector<std::string> names;
  for (const auto& e : parameters.entries()) names.push_back(e.name + e.shape.str());
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_of_llama_and_gpt2) {
  const Ragged batch = random_batch({4, 1, 3}, 1), next = random_batch({4, 1, 3}, 2);
  for (const LanguageModelConfig& config :
       {llama(), llama(Positions::rotary_halves), llama(Positions::alibi), gpt2()}) {
    Model m(config);
    const auto report = test::check_gradients(m.parameters, [&] { return cross_entropy(m.model(batch), next.tokens); });
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  }
}

BOOST_AUTO_TEST_CASE(parameters_have_the_names_that_files_use) {
  const std::vector<std::string> expected{"embedding.weight[11,16]",
                                          "layers.0.self_attn.in_proj.weight[32,16]",
                                          "layers.0.self_attn.out_proj.weight[16,16]",
                                          "layers.0.ffn.gate.weight[12,16]",
                                          "layers.0.ffn.up.weight[12,16]",
                                          "layers.0.ffn.down.weight[16,12]",
                                          "layers.0.norm1.weight[16]",
                                          "layers.0.norm2.weight[16]",
                                          "layers.norm.weight[16]",
                                          "output.weight[11,16]"};
  LanguageModelConfig config = llama();
  config.n_layers = 1;
  BOOST_TEST(names_of(config) == expected, boost::test_tools::per_element());
}

// Every combination gives the same scores with a cache as without, however many tokens are fed at a time.
BOOST_AUTO_TEST_CASE(cached_scores_equal_whole_ones_in_every_form) {
  std::size_t forms = 0;
  for (const Positions positions : kPositions)
    for (const int kv_heads : {0, 1, 2, 4})
      for (const Activation activation : kActivations)
        for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
          LanguageModelConfig config = llama(positions);
          config.layer.n_kv_heads = kv_heads;
          config.layer.activation = activation;
          config.layer.norm_kind = kind;
          config.layer.norm = forms % 3 == 0 ? Norm::post : Norm::pre;
          config.layer.bias = config.tie_output = forms % 2 == 0;
          ++forms;
          const Model m(config);
          const UseMode eval(Mode::eval);
          const Ragged texts = random_batch({9, 7}, forms);
          const std::vector<real> whole = copy_of(m.model(texts));
          KeyValueCache cache = m.model.make_cache(2);
          std::vector<real> parts[2];
          std::size_t done[2] = {0, 0};
          for (const std::array<std::size_t, 2> counts : {std::array<std::size_t, 2>{3, 1}, {1, 1}, {4, 4}, {1, 1}}) {
            Ragged next;
            for (std::size_t s = 0; s < 2; ++s) {
              next.add(texts[s].subspan(done[s], counts[s]));
              done[s] += counts[s];
            }
            const std::vector<real> scores = copy_of(m.model(next, &cache));
            const auto middle = scores.begin() + static_cast<std::ptrdiff_t>(counts[0] * kVocabulary);
            parts[0].insert(parts[0].end(), scores.begin(), middle);
            parts[1].insert(parts[1].end(), middle, scores.end());
          }
          parts[0].insert(parts[0].end(), parts[1].begin(), parts[1].end());
          BOOST_CHECK_SMALL(largest_difference(whole, parts[0]), test::kTolerance);
        }
  BOOST_CHECK_EQUAL(forms, 7 * 4 * 6 * 2);
}

// LLaMA's whole forward pass once more, one number at a time.
BOOST_AUTO_TEST_CASE(llama_equals_its_formulas) {
  for (const Positions positions : {Positions::rotary, Positions::rotary_halves}) {
    const Model m(llama(positions));
    const Ragged text = random_batch({6}, 4);
    using Rows = std::vector<std::vector<double>>;
    const auto weight = [&](const std::string& name) { return m.parameters.find(name)->tensor; };
    const auto times = [&](const std::string& name, const std::vector<double>& x) {
      const Tensor w = weight(name + ".weight");
      std::vector<double> y(w.rows());
      for (std::size_t i = 0; i < y.size(); ++i)
        for (std::size_t j = 0; j < x.size(); ++j) y[i] += double{w.values()[i * x.size() + j]} * x[j];
      return y;
    };
    const auto norm = [&](const std::string& name, std::vector<double> x) {
      double square = 0;
      for (const double v : x) square += v * v / static_cast<double>(x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] *= double{weight(name + ".weight").values()[i]} / std::sqrt(square + 1e-5);
      return x;
    };
    const auto turn = [&](std::vector<double>& x, std::size_t first, int position) {  // rotates a head of width 4
      for (std::size_t i = 0; i < 2; ++i) {
        const bool halves = positions == Positions::rotary_halves;
        double &a = x[first + (halves ? i : 2 * i)], &b = x[first + (halves ? i + 2 : 2 * i + 1)];
        const double angle = position / std::pow(100.0, static_cast<double>(i) / 2);
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
    };
    Rows x;
    for (const int token : text.tokens) {
      const auto row = weight("embedding.weight").values().subspan(static_cast<std::size_t>(token) * 16, 16);
      x.emplace_back(row.begin(), row.end());
    }
    for (int layer = 0; layer < 2; ++layer) {
      const std::string at = "layers." + std::to_string(layer) + ".";
      Rows qkv;
      for (std::size_t n = 0; n < x.size(); ++n) {
        qkv.push_back(times(at + "self_attn.in_proj", norm(at + "norm1", x[n])));
        for (std::size_t head = 0; head < 6; ++head) turn(qkv[n], 4 * head, static_cast<int>(n));
      }
      for (std::size_t n = 0; n < x.size(); ++n) {
        std::vector<double> out(16);
        for (std::size_t h = 0; h < 4; ++h) {
          std::vector<double> e;
          double total = 0;
          for (std::size_t k = 0; k <= n; ++k) {
            double dot = 0;
            for (std::size_t c = 0; c < 4; ++c) dot += qkv[n][4 * h + c] * qkv[k][16 + h / 2 * 4 + c];
            e.push_back(std::exp(dot / 2));
            total += e.back();
          }
          for (std::size_t k = 0; k <= n; ++k)
            for (std::size_t c = 0; c < 4; ++c) out[4 * h + c] += e[k] / total * qkv[k][24 + h / 2 * 4 + c];
        }
        const auto attended = times(at + "self_attn.out_proj", out);
        for (std::size_t c = 0; c < 16; ++c) x[n][c] += attended[c];
        const auto z = norm(at + "norm2", x[n]);
        auto gated = times(at + "ffn.gate", z);
        const auto up = times(at + "ffn.up", z);
        for (std::size_t c = 0; c < 12; ++c) gated[c] *= up[c] / (1 + std::exp(-gated[c]));
        const auto down = times(at + "ffn.down", gated);
        for (std::size_t c = 0; c < 16; ++c) x[n][c] += down[c];
      }
    }
    std::vector<real> expected;
    for (const auto& row : x)
      for (const double score : times("output", norm("layers.norm", row))) expected.push_back(static_cast<real>(score));
    BOOST_CHECK_SMALL(largest_difference(m.model(text).values(), expected), test::kTolerance);
  }
}

// Relative positional encodings depend only on distances.
BOOST_AUTO_TEST_CASE(a_shift_of_all_positions_changes_nothing) {
  for (const Positions positions : {Positions::rotary, Positions::rotary_halves, Positions::alibi}) {
    const Model m(llama(positions));
    const Ragged texts = random_batch({6, 3}, 5);
    const Tensor x = m.model.embedding(texts.tokens);
    const auto scores = [&](int shift) {
      std::vector<int> ids;
      for (const int n : {0, 1, 2, 3, 4, 5, 0, 1, 2}) ids.push_back(n + shift);
      const AttentionPositions shifted = m.model.positions.for_attention(ids);
      return copy_of(m.model.layers(x, texts.offsets, {.common = shifted}));
    };
    const std::vector<real> here = scores(0), there = scores(7);
    BOOST_CHECK_SMALL(largest_difference(here, there), test::kTolerance);
    const std::vector<real> plain = copy_of(m.model.layers(x, texts.offsets));
    BOOST_CHECK_GT(largest_difference(here, plain), 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(neither_the_future_nor_other_texts_matter) {
  for (const LanguageModelConfig& config :
       {llama(), llama(Positions::rotary_halves), llama(Positions::alibi), gpt2()}) {
    const Model m(config);
    const Ragged texts = random_batch({6, 1, 4}, 5);
    const std::vector<real> scores = copy_of(m.model(texts));
    const auto row = [&](const std::vector<real>& of, std::size_t r) {
      return std::span(of).subspan(r * kVocabulary, kVocabulary);
    };
    Ragged changed = texts;
    changed.tokens[5] = (changed.tokens[5] + 1) % kVocabulary;  // the last token of the first text
    const std::vector<real> other = copy_of(m.model(changed));
    for (std::size_t r = 0; r < 11; ++r) {
      const double difference = largest_difference(row(scores, r), row(other, r));
      BOOST_CHECK(r == 5 ? difference > 1e-6 : difference < test::kTolerance);
    }
    const std::vector<real> turned = copy_of(m.model(small::pick(texts, {2, 0, 1})));
    const std::size_t row_of[] = {7, 8, 9, 10, 0, 1, 2, 3, 4, 5, 6};
    for (std::size_t r = 0; r < 11; ++r)
      BOOST_CHECK_SMALL(largest_difference(row(turned, r), row(scores, row_of[r])), test::kTolerance);
  }
}

BOOST_AUTO_TEST_CASE(alibi_has_the_slopes_of_the_paper) {
  for (int h = 0; h < 8; ++h) BOOST_CHECK_CLOSE(alibi_slope(h, 8), std::pow(0.5, h + 1), 1e-10);
  BOOST_CHECK_CLOSE(alibi_slope(0, 16), std::sqrt(0.5), 1e-10);
  BOOST_CHECK_CLOSE(alibi_slope(7, 12), 1.0 / 256, 1e-10);
  for (int h = 8; h < 12; ++h) BOOST_CHECK_CLOSE(alibi_slope(h, 12), std::pow(0.5, 0.5 + (h - 8)), 1e-10);
}

BOOST_AUTO_TEST_CASE(attention_of_three_inputs) {
  Parameters parameters(1);
  const MultiHeadAttention plain(parameters.root() / "plain", 8, 4, {.n_kv_heads = 2}),
      wide(parameters.root() / "wide", 8, 4, {.n_kv_heads = 2, .k_dim = 3, .v_dim = 5});
  BOOST_CHECK(parameters.find("wide.in_proj.weight")->shape == (Shape{8, 8}));
  BOOST_CHECK(parameters.find("wide.k_proj.weight")->shape == (Shape{4, 3}));
  BOOST_CHECK(parameters.find("wide.v_proj.weight")->shape == (Shape{4, 5}));
  const std::vector<int> q_rows{0, 2, 5}, k_rows{0, 4, 5};
  RandomStream random(2, Purpose::test);
  const auto draw = [&](int rows, int columns) {
    std::vector<real> values;
    for (int i = 0; i < rows * columns; ++i) values.push_back(static_cast<real>(random.normal()));
    return variable({rows, columns}, values);
  };
  tape().clear();
  const Tensor x = draw(5, 8), k = draw(5, 3), v = draw(5, 5), bias = draw(3, 4);
  const std::vector<real> self = copy_of(plain(x, q_rows)), cross = copy_of(plain(x, q_rows, x, k_rows));
  BOOST_CHECK_EQUAL(largest_difference(plain(x, q_rows, x, x, q_rows).values(), self), 0);
  BOOST_CHECK_EQUAL(largest_difference(plain(x, q_rows, x, x, k_rows).values(), cross), 0);
  const MultiHeadAttention wide_k(parameters.root() / "wide_k", 8, 4, {.n_kv_heads = 2, .k_dim = 3}),
      wide_v(parameters.root() / "wide_v", 8, 4, {.n_kv_heads = 2, .v_dim = 5});  // the other has d_model
  BOOST_CHECK(parameters.find("wide_k.v_proj.weight")->shape == (Shape{4, 8}));
  BOOST_CHECK(parameters.find("wide_v.k_proj.weight")->shape == (Shape{4, 8}));
  for (const auto& attn : {wide_k, wide_v}) BOOST_CHECK(attn.in_proj.weight.shape() == (Shape{8, 8}));
  BOOST_CHECK_EQUAL(wide_k(x, q_rows, k, x, k_rows).numel() + wide_v(x, q_rows, x, v, k_rows).numel(), 80);
  BOOST_CHECK_THROW(wide(x, q_rows), ShapeError);  // expects separate queries, keys and values
  BOOST_CHECK_THROW(wide(x, q_rows, k, k, k_rows), ShapeError);
  // What would be ignored is refused.
  KeyValueCache cache(1, q_rows.size() - 1, 8, 8);
  const AttentionExtras cached{.cache = &cache}, turned{.positions = {.rotary = ones({8, 2})}};
  BOOST_CHECK_THROW(wide(x, q_rows, k, v, k_rows, cached), ArgumentError);
  BOOST_CHECK_THROW(wide(x, q_rows, k, v, k_rows, turned), ArgumentError);
  BOOST_CHECK_THROW(plain(x, q_rows, x, k_rows, turned), ArgumentError);
  const std::vector<real> xs = copy_of(x), ks = copy_of(k), vs = copy_of(v), bs = copy_of(bias);
  const auto report = test::check_gradients(parameters, [&] {
    const Tensor y = wide(tensor({5, 8}, xs), q_rows, tensor({5, 3}, ks), tensor({5, 5}, vs), k_rows,
                          {.mask = Mask::causal(), .bias = tensor({3, 4}, bs)});
    const Tensor z = plain(y, q_rows, tensor({5, 8}, xs), y, k_rows);
    return sum(square(z));
  });
  BOOST_CHECK_MESSAGE(report.passed, report.text);
  tape().clear();
}

BOOST_AUTO_TEST_CASE(scores_are_capped_in_every_call) {
  Parameters parameters(1);
  const MultiHeadAttention attn(parameters.root(), 8, 2, {.softcap = 0.5});
  const std::vector<int> rows{0, 3, 5};
  RandomStream random(3, Purpose::test);
  tape().clear();
  const Tensor x = 3 * randn({5, 8}, random);
  const auto project = [&](int part) {
    return linear(x, slice(attn.in_proj.weight, 0, 8 * part, 8 * part + 8),
                  slice(attn.in_proj.bias, 0, 8 * part, 8 * part + 8));
  };
  const auto by_op = [&](double softcap) {
    return attn.out_proj(attention(project(0), project(1), project(2), 2, rows, rows, {.softcap = softcap}));
  };
  const std::vector<real> capped = copy_of(by_op(0.5));
  BOOST_CHECK_LT(largest_difference(attn(x, rows).values(), capped), 1e-12);
  BOOST_CHECK_LT(largest_difference(attn(x, rows, x, rows).values(), capped), 1e-12);
  BOOST_CHECK_LT(largest_difference(attn(x, rows, x, x, rows).values(), capped), 1e-12);
  BOOST_CHECK_GT(largest_difference(by_op(0).values(), capped), 1e-3);
}

// Configs in files that predate these fields.
BOOST_AUTO_TEST_CASE(configs_without_the_newer_fields_mean_what_they_did) {
  LanguageModelConfig config = gpt2();
  config.layer.n_heads = 4;
  auto json = to_json_object(config);
  for (const char* field : {"n_kv_heads", "norm_kind", "rope_theta", "tie_output"})
    BOOST_CHECK_EQUAL(json.erase(field), 1);
  const auto read = from_json_object<LanguageModelConfig>(json);
  BOOST_CHECK(to_json_object(read) == to_json_object(config));
  json.erase("n_heads");
  BOOST_CHECK_THROW(from_json_object<LanguageModelConfig>(json), FormatError);
  const auto all = to_json_object(llama(Positions::rotary_halves));
  BOOST_CHECK(to_json_object(from_json_object<LanguageModelConfig>(all)) == all);
}

BOOST_AUTO_TEST_CASE(forms_that_do_not_fit_are_refused) {
  const auto refused = [](const auto& change) {
    LanguageModelConfig config = llama();
    change(config);
    Parameters parameters(0);
    BOOST_CHECK_THROW(LanguageModel(parameters.root(), config), ArgumentError);
  };
  refused([](auto& c) { c.layer.n_kv_heads = 3; });
  refused([](auto& c) { c.layer.n_kv_heads = 8; });
  refused([](auto& c) { c.layer.n_kv_heads = -1; });
  refused([](auto& c) { c.layer.n_heads = 16; });  // rotary positions need pairs of columns
  refused([](auto& c) { c.rope_theta = 0; });
  Parameters parameters(0);
  BOOST_CHECK_THROW(MultiHeadAttention(parameters.root(), 8, 4, {.n_kv_heads = 3}), ArgumentError);
}
