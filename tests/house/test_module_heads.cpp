// The examples at the heads of the modules' headers, compiled and run. test_documents checks that each is here.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <vector>

#include <seppo/seppo.h>

using namespace seppo;

namespace {

void check_close(double value, double expected) { BOOST_CHECK_SMALL(value - expected, 1e-3); }

// The tape is cleared for each case, and parameters have the same seed.
struct Fixture {
  Fixture() { tape().clear(); }
  Parameters parameters{1};
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(linear_head, Fixture) {
  const Linear up(parameters.root() / "up", /*in=*/2, /*out=*/3);  // "up.weight" [3, 2] and "up.bias" [3]
  const Tensor y = up(tensor({1, 2}, {1, 2}));                     // [1, 3]
  BOOST_CHECK(parameters.find("up.weight")->shape == (Shape{3, 2}) && parameters.find("up.bias")->shape == (Shape{3}));
  BOOST_CHECK(y.shape() == (Shape{1, 3}));
}

BOOST_FIXTURE_TEST_CASE(feed_forward_head, Fixture) {
  const Tensor x = ones({3, 2});
  const FeedForward ffn(parameters.root() / "ffn", /*d_model=*/2, /*d_ff=*/8, {.activation = Activation::swiglu});
  const Tensor y = ffn(x);  // both are [rows, 2]
  BOOST_CHECK(y.shape() == x.shape() && parameters.find("ffn.gate.weight"));
}

BOOST_FIXTURE_TEST_CASE(embedding_head, Fixture) {
  const Embedding table(parameters.root() / "embedding", /*vocabulary=*/5, /*d_model=*/2);
  const Tensor x = table({1, 4, 4});         // [3, 2]
  const Tensor logits = table.as_linear(x);  // [3, 5]
  BOOST_CHECK(x.shape() == (Shape{3, 2}) && logits.shape() == (Shape{3, 5}));
  BOOST_CHECK(x.values()[2] == x.values()[4] && x.values()[3] == x.values()[5] && x.values()[0] != x.values()[2]);
}

BOOST_AUTO_TEST_CASE(rotary_angles_head) {
  const int position = 20, i = 1;
  const RotaryScaling twice{.kind = RotaryScale::linear, .factor = 2};
  const RotaryAngles angles = rotary_angles(/*columns=*/8, /*theta=*/10000, twice);
  const double radians = position / angles.wavelengths[i];  // of pair i
  check_close(radians, 1);
}

BOOST_FIXTURE_TEST_CASE(layer_norm_head, Fixture) {
  const LayerNorm norm(parameters.root() / "norm", /*size=*/2);
  const Tensor y = norm(tensor({1, 2}, {3, 5}));  // -1 and 1
  check_close(y.values()[0], -1);
  check_close(y.values()[1], 1);
}

BOOST_FIXTURE_TEST_CASE(batch_norm_head, Fixture) {
  const BatchNorm norm(parameters.root() / "norm", /*size=*/1);
  const Tensor y = norm(tensor({2, 1}, {3, 5}));  // -1 and 1, and the running mean moves towards 4
  check_close(y.values()[0], -1);
  check_close(y.values()[1], 1);
  BOOST_CHECK(norm.running_mean.item() > 0 && norm.running_mean.item() < 4);
}

BOOST_FIXTURE_TEST_CASE(dropout_head, Fixture) {
  const Tensor x = ones({50, 2});
  const Dropout drop(0.5);
  const Tensor y = drop(x);  // in training, each element is 0 or doubled
  int zeros = 0;
  for (const real v : y.values()) {
    BOOST_CHECK(v == 0 || v == 2);
    zeros += v == 0;
  }
  BOOST_CHECK(zeros > 0 && zeros < 100);
}

BOOST_FIXTURE_TEST_CASE(positional_encoding_head, Fixture) {
  const Tensor x = zeros({5, 8});
  const PositionalEncoding positions(parameters.root(), Positions::sinusoid, /*max_positions=*/16, /*d_model=*/8);
  const Tensor y = positions(x, {0, 3, 5});  // of five rows, those at positions 0, 1 and 2, and 0 and 1
  const int position[] = {0, 1, 2, 0, 1};
  for (std::size_t row = 0; row < 5; ++row) check_close(y.values()[row * 8], std::sin(position[row]));
}

BOOST_FIXTURE_TEST_CASE(multi_head_attention_head, Fixture) {
  std::vector<real> values;
  for (int i = 0; i < 5 * 8; ++i) values.push_back(static_cast<real>(std::sin(i * i)));
  const Tensor x = tensor({5, 8}, values);
  const MultiHeadAttention attention(parameters.root() / "attention", /*d_model=*/8, /*n_heads=*/2);
  const Tensor y = attention(x, {0, 3, 5}, {.mask = Mask::causal()});  // two sequences, of three and two rows
  const Tensor last = attention(slice(x, 0, 3, 5), {0, 2}, {.mask = Mask::causal()});
  BOOST_CHECK(y.shape() == x.shape());
  for (std::size_t i = 0; i < 2 * 8; ++i) check_close(y.values()[3 * 8 + i], last.values()[i]);
}

BOOST_FIXTURE_TEST_CASE(kv_cache_head, Fixture) {
  const LanguageModel model(
      parameters.root(),
      {.vocabulary = 5, .layer = {.d_model = 8, .n_heads = 2, .d_ff = 8}, .n_layers = 2, .max_length = 6});
  Ragged prompts, next, whole;
  prompts.add({1, 2, 3});
  prompts.add({4});
  next.add({4});
  next.add({0});
  whole.add({1, 2, 3, 4});
  whole.add({4, 0});
  const Inference inference;
  KeyValueCache cache = model.make_cache(prompts.size());
  Tensor logits = model(prompts, &cache);  // then one token, or any number, for each sequence:
  logits = model(next, &cache);            // scores equal those of the whole text up to rounding
  const Tensor expected = model(whole);
  for (std::size_t i = 0; i < 5; ++i) {
    check_close(logits.values()[i], expected.values()[3 * 5 + i]);
    check_close(logits.values()[5 + i], expected.values()[5 * 5 + i]);
  }
}
