// Initialisation: what modules draw, by default and as PyTorch's do.
#include <seppo/autograd/core/parallel.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/modules/batch_norm.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/feed_forward.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/multi_head_attention.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace seppo;

namespace {

struct Spread {
  double largest = 0, mean = 0, deviation = 0;
};

Spread spread_of(const Tensor& x) {
  Spread s;
  double squares = 0;
  for (const real v : x.values()) {
    const double value = static_cast<double>(v);
    s.largest = std::max(s.largest, std::abs(value));
    s.mean += value / static_cast<double>(x.numel());
    squares += value * value / static_cast<double>(x.numel());
  }
  s.deviation = std::sqrt(squares);
  return s;
}

// Are these many values those of U(-bound, bound)? The tolerances are five standard errors.
void check_uniform(const std::string& name, const Tensor& x, double bound) {
  BOOST_TEST_CONTEXT(name) {
    const Spread s = spread_of(x);
    const double n = static_cast<double>(x.numel()), deviation = bound / std::sqrt(3.0);
    BOOST_CHECK_LE(s.largest, bound * (1 + 1e-6));
    BOOST_CHECK_GE(s.largest, bound * (1 - 10 / n));
    BOOST_CHECK_SMALL(s.mean, 5 * deviation / std::sqrt(n));
    BOOST_CHECK_SMALL(s.deviation / deviation - 1, 5 * std::sqrt(0.2 / n));  // Var(x^2) = 0.8 deviation^4
  }
}

void check_all(const std::string& name, const Tensor& x, real value) {
  BOOST_CHECK_MESSAGE(std::ranges::all_of(x.values(), [=](real v) { return v == value; }), name);
}

std::vector<real> values_of(const Tensor& x) { return {x.values().begin(), x.values().end()}; }

}  // namespace

// As torch.nn.Linear's reset_parameters() documents it: both from U(-b, b) with b = 1 / sqrt(in).
BOOST_AUTO_TEST_CASE(linear_as_in_pytorch) {
  Parameters parameters(1);
  const Scope s = parameters.root().with(Initialisation::pytorch);
  const Linear wide(s / "wide", 400, 300), narrow(s / "deeper" / 0 / "narrow", 3, 5000);
  check_uniform("wide", wide.weight, 1 / std::sqrt(400.0));
  check_uniform("wide bias", wide.bias, 1 / std::sqrt(400.0));
  check_uniform("narrow", narrow.weight, 1 / std::sqrt(3.0));
  check_uniform("narrow bias", narrow.bias, 1 / std::sqrt(3.0));
  BOOST_CHECK(!Linear(s / "none", 4, 4, {.bias = false}).bias.defined());
}

// The same for a module made of others, which passes on its scope.
BOOST_AUTO_TEST_CASE(feed_forward_as_in_pytorch) {
  Parameters parameters(1);
  const FeedForward ffn(parameters.root().with(Initialisation::pytorch) / "ffn", 100, 400);
  check_uniform("up", ffn.up.weight, 1 / std::sqrt(100.0));
  check_uniform("up bias", ffn.up.bias, 1 / std::sqrt(100.0));
  check_uniform("down", ffn.down.weight, 1 / std::sqrt(400.0));
  check_uniform("down bias", ffn.down.bias, 1 / std::sqrt(400.0));
}

// nn.MultiheadAttention: xavier_uniform_ of the stacked weight as one matrix, biases 0, and a Linear whose bias is 0.
BOOST_AUTO_TEST_CASE(attention_as_in_pytorch) {
  Parameters parameters(1);
  const Scope s = parameters.root().with(Initialisation::pytorch);
  const MultiHeadAttention own(s / "own", 64, 4), others(s / "others", 64, 4, {.k_dim = 32, .v_dim = 200});
  check_uniform("in_proj", own.in_proj.weight, std::sqrt(6.0 / (64 + 3 * 64)));
  check_uniform("out_proj", own.out_proj.weight, 1 / std::sqrt(64.0));
  check_uniform("q_proj", others.in_proj.weight, std::sqrt(6.0 / (64 + 64)));
  check_uniform("k_proj", others.k_proj->weight, std::sqrt(6.0 / (64 + 32)));
  check_uniform("v_proj", others.v_proj->weight, std::sqrt(6.0 / (64 + 200)));
  for (const Linear* linear : {&own.in_proj, &own.out_proj, &others.in_proj, &*others.k_proj, &*others.v_proj})
    check_all("bias", linear->bias, 0);
}

BOOST_AUTO_TEST_CASE(embeddings_and_norms_are_the_same_either_way) {
  for (const Initialisation how : {Initialisation::seppo, Initialisation::pytorch}) {
    Parameters parameters(1);
    const Scope s = parameters.root().with(how);
    const Spread table = spread_of(Embedding(s / "table", 300, 100).weight);
    BOOST_CHECK_SMALL(table.mean, 0.03);
    BOOST_CHECK_SMALL(table.deviation - 1, 0.03);
    const LayerNorm layer(s / "layer", 7);
    const BatchNorm batch(s / "batch", 7);
    for (const Tensor& weight : {layer.weight, batch.weight, batch.running_var}) check_all("weight", weight, 1);
    for (const Tensor& bias : {layer.bias, batch.bias, batch.running_mean}) check_all("bias", bias, 0);
  }
}

// By default Glorot and Bengio's, in attention of each projection by itself, and biases of 0.
BOOST_AUTO_TEST_CASE(seppos_own) {
  Parameters parameters(1);
  const Linear up(parameters.root() / "up", 400, 300);
  check_uniform("up", up.weight, std::sqrt(6.0 / 700));
  check_all("up bias", up.bias, 0);
  const MultiHeadAttention attention(parameters.root() / "attention", 64, 4);
  check_uniform("in_proj", attention.in_proj.weight, std::sqrt(6.0 / (64 + 64)));
  check_uniform("out_proj", attention.out_proj.weight, std::sqrt(6.0 / (64 + 64)));
  check_all("in_proj bias", attention.in_proj.bias, 0);
  check_all("out_proj bias", attention.out_proj.bias, 0);
}

// An initialiser that is given holds, whatever the scope's way; what is not given follows it.
BOOST_AUTO_TEST_CASE(options_win) {
  Parameters parameters(1);
  const Scope s = parameters.root().with(Initialisation::pytorch);
  const Linear weight(s / "weight", 100, 300, {.init = init_constant(2)});
  check_all("weight", weight.weight, 2);
  check_uniform("bias beside it", weight.bias, 0.1);
  const Linear bias(s / "bias", 100, 300, {.bias_init = init_constant(3)});
  check_uniform("weight beside it", bias.weight, 0.1);
  check_all("bias", bias.bias, 3);
  const Linear own(parameters.root() / "own", 100, 300, {.bias_init = init_constant(3)});
  check_all("bias", own.bias, 3);
  check_uniform("weight beside it", own.weight, std::sqrt(6.0 / 400));
}

// Only the way of drawing differs: a path, its name and its place in the file are the same, as is what has no choice.
BOOST_AUTO_TEST_CASE(a_model_keeps_its_names) {
  const LanguageModelConfig config{
      .vocabulary = 50, .layer = {.d_model = 32, .n_heads = 4, .d_ff = 64, .bias = true}, .n_layers = 1};
  Parameters a(1), b(1);
  const LanguageModel ours(a.root(), config), theirs(b.root().with(Initialisation::pytorch), config);
  BOOST_REQUIRE_EQUAL(a.entries().size(), b.entries().size());
  for (std::size_t i = 0; i < a.entries().size(); ++i) {
    const auto &own = a.entries()[i], &other = b.entries()[i];
    BOOST_CHECK_EQUAL(own.name, other.name);
    const bool has_no_choice = own.name.find("norm") != std::string::npos || own.name == "embedding.weight" ||
                               own.name == "positions.weight" || own.name.ends_with("attn.in_proj.bias") ||
                               own.name.ends_with("attn.out_proj.bias");
    BOOST_CHECK_MESSAGE((values_of(own.tensor) == values_of(other.tensor)) == has_no_choice, own.name);
  }
}

// Memory that is full is copied in pieces of 4,096 values, of which those of zeros are left out.
BOOST_AUTO_TEST_CASE(values_stay_when_others_are_added) {
  for (const int size : {4095, 4096, 4097, 3 * 4096 + 1})
    for (const int place : {0, size / 2, size - 1}) {
      Parameters parameters(1);
      const auto one = [=](std::span<real> values, const Shape&, RandomStream&) {
        values[static_cast<std::size_t>(place)] = 3;
      };
      const Tensor w = parameters.root().parameter("w", {size}, one);
      const Tensor other = parameters.root().parameter("other", {1 << 18}, init_ones());
      const std::span<const real> values = w.values();
      for (int i = 0; i < size; ++i) BOOST_REQUIRE_EQUAL(values[static_cast<std::size_t>(i)], i == place ? 3 : 0);
      BOOST_CHECK_EQUAL(other.values().back(), 1);
    }
}

// One number after the other, whatever threads there are; sizes around the pieces that threads take.
BOOST_AUTO_TEST_CASE(values_are_drawn_alike_by_any_number_of_threads) {
  constexpr std::size_t kPiece = 32768;
  struct Case {
    Init init;
    std::function<double(RandomStream&)> number;
  };
  const Case cases[] = {{init_normal(0.3), [](RandomStream& random) { return 0.3 * random.normal(); }},
                        {init_uniform(0.3), [](RandomStream& random) { return 0.3 * (2 * random.uniform() - 1); }}};
  for (const Case& c : cases)
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}, kPiece - 1, kPiece, kPiece + 1, 5 * kPiece + 3}) {
      std::vector<real> expected(size);
      RandomStream one_by_one(9, Purpose::init, 5);
      for (real& value : expected) value = static_cast<real>(c.number(one_by_one));
      if (size % 2 != 0) c.number(one_by_one);
      for (const int threads : {1, 2, 5}) {
        set_num_threads(threads);
        std::vector<real> values(size);
        RandomStream random(9, Purpose::init, 5);
        c.init(values, {static_cast<int>(size)}, random);
        BOOST_CHECK_MESSAGE(values == expected, size << " values, " << threads << " threads");
        RandomStream rest = one_by_one;
        BOOST_CHECK_EQUAL(random.next(), rest.next());
      }
    }
  set_num_threads(1);
}
