// The attention weights that an observer records, against softmax(Q K^T / sqrt(d)) computed element by element.
// needs: precision: double; full: single
#include "models/small_transformer.h"
#include "support/precision.h"

#include <seppo/autograd/tools/attention_recorder.h>
#include <seppo/models/language_model.h>

#include <cstdlib>
#include <new>
#include <numeric>
#include <string>

namespace {

std::size_t largest_allocation = 0;  // in bytes

[[gnu::noinline]] void* allocate(std::size_t size) {
  largest_allocation = std::max(largest_allocation, size);
  if (void* const p = std::malloc(size > 0 ? size : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void release(void* p) { std::free(p); }

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }

using namespace seppo;
using small::copy_of, small::Fixture, small::largest_difference;

namespace {

// The attention weights of one layer, computed from its inputs: queries from x, keys from y.
std::vector<double> naive_weights(const MultiHeadAttention& a, const Tensor& x, Offsets x_rows, const Tensor& y,
                                  Offsets y_rows, bool is_causal, const Shape& shape) {
  const auto d = static_cast<std::size_t>(a.d_model), heads = static_cast<std::size_t>(a.n_heads), width = d / heads;
  const auto project = [&](const Tensor& z, std::size_t row, std::size_t column) {
    double sum{a.in_proj.bias.values()[column]};
    for (std::size_t i = 0; i < d; ++i)
      sum += double{z.values()[row * d + i]} * double{a.in_proj.weight.values()[column * d + i]};
    return sum;
  };
  const auto at = [](Offsets rows, std::size_t s) { return static_cast<std::size_t>(rows[s]); };
  const auto most_queries = static_cast<std::size_t>(shape[2]), most_keys = static_cast<std::size_t>(shape[3]);
  std::vector<double> weights(static_cast<std::size_t>(shape.numel()));
  for (std::size_t s = 0; s + 1 < x_rows.size(); ++s)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t q = 0; q < at(x_rows, s + 1) - at(x_rows, s); ++q) {
        double* const row = weights.data() + ((s * heads + h) * most_queries + q) * most_keys;
        double total = 0;
        for (std::size_t k = 0; k < at(y_rows, s + 1) - at(y_rows, s) && (!is_causal || k <= q); ++k) {
          double dot = 0;
          for (std::size_t c = h * width; c < (h + 1) * width; ++c)
            dot += project(x, at(x_rows, s) + q, c) * project(y, at(y_rows, s) + k, d + c);
          total += row[k] = std::exp(dot / std::sqrt(static_cast<double>(width)));
        }
        for (std::size_t k = 0; k < most_keys; ++k) row[k] /= total;
      }
  return weights;
}

// Counts the attention weights and the tensors that it is notified of.
struct Counter : Observer {
  explicit Counter(bool wants) : wants(wants) {}
  bool wants_attention_weights() const override { return wants; }
  void attention_weights(const Shape&, std::span<const real>) override { ++told; }
  void created(const Tensor&) override { ++tensors; }
  bool wants;
  int told = 0, tensors = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(maps_come_from_every_layer_and_head_under_its_name) {
  Fixture f;
  AttentionRecorder recorder;
  std::vector<real> with;
  {
    const Observe scope(recorder);
    with = copy_of(f.model.logits(f.src, f.tgt));
  }
  const Tensor without = f.model.logits(f.src, f.tgt);
  BOOST_CHECK_EQUAL(largest_difference(with, without.values()), 0);
  std::vector<std::string> names;
  for (const AttentionMap& map : recorder.maps) {
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
      BOOST_CHECK_SMALL(total - (real_row ? 1 : 0), test::kTolerance);
      for (std::size_t j = k[row / queries / heads].size(); j < keys; ++j)
        BOOST_CHECK_EQUAL(map.weights[row * keys + j], 0);
    }
  }
  const std::vector<std::string> expected{"encoder.0.self_attn",  "encoder.1.self_attn", "decoder.0.self_attn",
                                          "decoder.0.cross_attn", "decoder.1.self_attn", "decoder.1.cross_attn"};
  BOOST_CHECK(names == expected);
}

BOOST_AUTO_TEST_CASE(maps_are_the_softmax_of_scaled_products) {
  for (const Mode mode : {Mode::train, Mode::eval}) {
    Fixture f;
    const UseMode scope(mode);
    const Tensor x = f.model.embed(f.model.src_embedding, f.src), y = f.model.embed(f.model.tgt_embedding, f.tgt);
    const MultiHeadAttention& self = f.model.decoder.layers[0].self_attn;
    const MultiHeadAttention& cross = f.model.decoder.layers[0].cross_attn;
    AttentionRecorder recorder;
    {
      const Observe observe(recorder);
      self(x, f.src.offsets);
      self(y, f.tgt.offsets, {.mask = Mask::causal()});
      cross(y, f.tgt.offsets, x, f.src.offsets);
    }
    BOOST_REQUIRE_EQUAL(recorder.maps.size(), 3);
    const auto check_map = [&](const AttentionMap& map, const std::vector<double>& expected) {
      BOOST_CHECK_SMALL(largest_difference(map.weights, std::vector<real>(expected.begin(), expected.end())),
                        test::kTolerance);
    };
    const auto& maps = recorder.maps;
    check_map(maps[0], naive_weights(self, x, f.src.offsets, x, f.src.offsets, false, maps[0].shape));
    check_map(maps[1], naive_weights(self, y, f.tgt.offsets, y, f.tgt.offsets, true, maps[1].shape));
    check_map(maps[2], naive_weights(cross, y, f.tgt.offsets, x, f.src.offsets, false, maps[2].shape));
  }
}

// The recorded weights are those before dropout, so that maps are complete even in training mode.
BOOST_AUTO_TEST_CASE(dropout_does_not_change_the_maps) {
  TransformerConfig config = small::config();
  const auto maps_of = [&](double dropout) {
    config.layer.attention_dropout = dropout;
    Fixture f(config);
    AttentionRecorder recorder;
    const Observe scope(recorder);
    f.model.encoder.layers[0](f.model.embed(f.model.src_embedding, f.src), f.src.offsets);
    return recorder.maps.at(0).weights;
  };
  BOOST_CHECK(maps_of(0) == maps_of(0.5));
}

BOOST_AUTO_TEST_CASE(nothing_is_computed_without_a_recorder) {
  TransformerConfig config = small::config();
  config.max_length = 100;
  Fixture f(config);
  const Ragged src = small::random_batch({100}, 1);
  constexpr std::size_t kWeights = sizeof(real) * 2 * 100 * 100;  // bytes, of one layer
  f.model.encode(src);                                            // grows the tape
  tape().clear();
  Counter indifferent(false), interested(true);
  const auto allocates = [&](Counter& counter) {
    largest_allocation = 0;
    const Observe scope(counter);
    f.model.encode(src);
    return largest_allocation;
  };
  BOOST_CHECK_LT(allocates(indifferent), kWeights / 2);
  BOOST_CHECK_GE(allocates(interested), kWeights);
  BOOST_CHECK(indifferent.told == 0 && interested.told == 2);  // layers
  BOOST_CHECK(!Observer().wants_attention_weights());
  BOOST_CHECK_EQUAL(interested.tensors, indifferent.tensors);  // the weights are not tensors
}

BOOST_AUTO_TEST_CASE(nested_recorders_all_record_and_others_are_not_told) {
  Fixture f;
  AttentionRecorder outer, inner;
  Counter indifferent(false);
  const Observe first(outer), second(indifferent);
  {
    const Observe third(inner);
    f.model.encode(f.src);
  }
  f.model.encode(f.src);
  BOOST_REQUIRE(outer.maps.size() == 4 && inner.maps.size() == 2);
  BOOST_CHECK_EQUAL(indifferent.told, 0);
  for (std::size_t i = 0; i < 2; ++i)
    BOOST_CHECK(inner.maps[i].weights == outer.maps[i].weights && inner.maps[i].name == outer.maps[i].name);
}

// The causal mask makes a language model's attention maps lower triangular.
BOOST_AUTO_TEST_CASE(a_language_model_attends_the_past) {
  tape().clear();
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), {.vocabulary = small::kVocabulary,
                                                .layer = {.d_model = 8, .n_heads = 2, .d_ff = 32, .norm = Norm::pre},
                                                .n_layers = 2,
                                                .max_length = 8});
  const Ragged batch = small::random_batch({5, 1, 3}, 1);
  AttentionRecorder recorder;
  const Observe scope(recorder);
  model(batch);
  BOOST_REQUIRE_EQUAL(recorder.maps.size(), 2u);
  BOOST_CHECK_EQUAL(recorder.maps[1].name, "layers.1.self_attn");
  BOOST_CHECK(recorder.maps[1].shape == (Shape{3, 2, 5, 5}));
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 5; ++j) BOOST_CHECK((recorder.maps[0].weights[i * 5 + j] > 0) == (j <= i));
}
