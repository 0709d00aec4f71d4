// Modules: their outputs by hand, their options, and the names of their parameters.
#include <seppo/nn/modules/dropout.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/feed_forward.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/modules/multi_head_attention.h>
#include <seppo/nn/modules/positional_encoding.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

using namespace seppo;

// Whoever asks for a row has it, though another thread computes it.
BOOST_AUTO_TEST_CASE(threads_share_a_table_of_positions) {
  constexpr int kRows = 2000, kColumns = 16;
  for (int time = 0; time < 50; ++time) {
    Parameters parameters(1);
    const PositionalEncoding positions(parameters.root() / "p", Positions::sinusoid, kRows, kColumns);
    std::barrier start(3);
    std::array<real, 3> found{};
    std::vector<std::thread> threads;
    for (real& one : found)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        positions.ids({0, kRows});
        one = positions.table.values()[(kRows - 1) * kColumns];
      });
    for (std::thread& thread : threads) thread.join();
    for (const real one : found) BOOST_REQUIRE_CLOSE(double{one}, std::sin(double{kRows - 1}), 0.1);
  }
}

BOOST_AUTO_TEST_CASE(positional_encodings) {
  Parameters parameters(1);
  const PositionalEncoding sinusoid(parameters.root() / "a", Positions::sinusoid, 20, 6);
  const auto at = [](const PositionalEncoding& pe, std::size_t n, std::size_t j) {
    pe.ids({0, static_cast<int>(n) + 1});  // rows are computed when they are first needed
    return static_cast<double>(pe.table.values()[n * 6 + j]);
  };
  for (std::size_t n = 0; n < 20; ++n)
    for (std::size_t i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(n) / std::pow(10000.0, 2.0 * static_cast<double>(i) / 6);
      BOOST_CHECK_SMALL(at(sinusoid, n, 2 * i) - std::sin(angle), 1e-6);
      BOOST_CHECK_SMALL(at(sinusoid, n, 2 * i + 1) - std::cos(angle), 1e-6);
    }
  const PositionalEncoding cosinusoid(parameters.root() / "e", Positions::cosinusoid, 20, 6);
  for (std::size_t n = 0; n < 20; ++n)
    for (std::size_t j = 0; j < 6; ++j) BOOST_CHECK_EQUAL(at(cosinusoid, n, j), at(sinusoid, n, j % 2 ? j - 1 : j + 1));
  BOOST_CHECK(!parameters.find("a.weight") && !sinusoid.table.requires_grad());
  tape().clear();
  const std::vector<int> rows{0, 2, 5};
  const Tensor y = sinusoid(zeros({5, 6}), rows);
  const std::size_t positions[] = {0, 1, 0, 1, 2};
  for (std::size_t r = 0; r < 5; ++r)
    BOOST_CHECK_EQUAL(y.values()[r * 6 + 1], static_cast<real>(at(sinusoid, positions[r], 1)));
  const std::vector<int> first{7, 0};  // the first sequence continues at position 7
  const auto ids = sinusoid.ids(rows, first);
  BOOST_CHECK((std::vector<int>(ids.begin(), ids.end()) == std::vector<int>{7, 8, 0, 1, 2}));
  const std::vector<int> late{19, 0};
  BOOST_CHECK_THROW(sinusoid.ids(rows, late), IndexError);
  const std::vector<int> long_rows{0, 21};
  BOOST_CHECK_THROW(sinusoid(zeros({21, 6}), long_rows), IndexError);
  const PositionalEncoding learned(parameters.root() / "c", Positions::learned, 20, 6),
      none(parameters.root() / "d", Positions::none, 20, 6);
  BOOST_CHECK(parameters.find("c.weight") && learned.table.requires_grad() && !none.table.defined());
  // A user-defined table.
  const PositionalEncoding own(
      parameters.root().constant({2, 6}, [](std::span<real> values, const Shape&, RandomStream&) {
        for (std::size_t i = 0; i < 12; ++i) values[i] = i < 6 ? 1 : 2;
      }));
  const std::vector<int> two_rows{0, 2};
  BOOST_CHECK_EQUAL(own(zeros({2, 6}), two_rows).values()[11], 2);
  BOOST_CHECK_THROW(own(zeros({5, 6}), rows), IndexError);
  BOOST_CHECK_EQUAL(own.max_positions, 2);
  for (const Positions kind : {Positions::sinusoid, Positions::learned, Positions::none})
    BOOST_CHECK_THROW(PositionalEncoding(parameters.root() / "empty", kind, 0, 6), ArgumentError);
}

BOOST_AUTO_TEST_CASE(modules_take_their_options_by_name) {
  Parameters parameters(1);
  const Scope s = parameters.root();
  const Linear plain(s / "linear", 3, 2, {.bias = false, .init = init_constant(2)});
  BOOST_CHECK(!plain.bias.defined() && !parameters.find("linear.bias"));
  BOOST_CHECK_EQUAL(plain.weight.values()[5], 2);
  const LayerNorm norm(s / "norm", 4, {.eps = 3, .bias = false});
  BOOST_CHECK(!parameters.find("norm.bias"));
  tape().clear();
  BOOST_CHECK_CLOSE(norm(tensor({4}, {-1, 1, -1, 1})).values()[1], real{0.5f}, 1e-4f);  // 1 / sqrt(1 + 3)
  const FeedForward ffn(s / "ffn", 4, 8, {.activation = Activation::gelu, .bias = false});
  BOOST_CHECK(parameters.find("ffn.up.weight") && !parameters.find("ffn.up.bias") && !parameters.find("ffn.down.bias"));
  for (const double p : {-0.1, 1.1, std::nan("")}) BOOST_CHECK_THROW(Dropout{p}, ArgumentError);
  const MultiHeadAttention attn(s / "attn", 4, 2, {.dropout = 0.25, .bias = false});
  BOOST_CHECK(attn.dropout == 0.25 && !parameters.find("attn.in_proj.bias") && !parameters.find("attn.out_proj.bias"));
  const Embedding table(s / "table", 5, 4, init_constant(3));
  const std::vector<int> ids{4, 0};
  BOOST_CHECK_EQUAL(table(ids).values()[7], 3);
  BOOST_CHECK_EQUAL(table.as_linear(full({1, 4}, 1)).values()[4], 12);
}

BOOST_AUTO_TEST_CASE(multi_head_attention_equals_its_separate_projections) {
  Parameters parameters(8);
  const MultiHeadAttention attn(parameters.root(), 8, 2);
  tape().clear();
  RandomStream random(1, Purpose::test);
  std::vector<real> values;
  for (int i = 0; i < 5 * 8; ++i) values.push_back(static_cast<real>(random.normal()));
  const Tensor x = tensor({5, 8}, values);
  const std::vector<int> rows{0, 3, 5};
  const Tensor self = attn(x, rows), cross = attn(x, rows, x, rows);
  const auto project = [&](const Tensor& of, int part) {
    return linear(of, slice(attn.in_proj.weight, 0, part * 8, part * 8 + 8),
                  slice(attn.in_proj.bias, 0, part * 8, part * 8 + 8));
  };
  const Tensor memory = seppo::exp(x);
  const Tensor separate = attn.out_proj(attention(project(x, 0), project(x, 1), project(x, 2), 2, rows, rows)),
               others = attn.out_proj(attention(project(x, 0), project(memory, 1), project(memory, 2), 2, rows, rows));
  const Tensor of_memory = attn(x, rows, memory, rows);
  for (std::size_t i = 0; i < self.numel(); ++i) {
    BOOST_CHECK_SMALL(self.values()[i] - separate.values()[i], real{1e-5f});
    BOOST_CHECK_SMALL(self.values()[i] - cross.values()[i], real{1e-5f});
    BOOST_CHECK_SMALL(of_memory.values()[i] - others.values()[i], real{1e-5f});
  }
}

// Press et al. 2022: head h of 2^k has slope 2^(-8 (h + 1) / 2^k); for other numbers of heads, those beyond the
// largest power of two take every other slope of twice that power.
BOOST_AUTO_TEST_CASE(each_head_has_its_slope) {
  for (const int heads : {1, 2, 3, 4, 5, 6, 8, 12}) {
    const int power = heads >= 8 ? 8 : heads >= 4 ? 4 : heads >= 2 ? 2 : 1;
    Parameters parameters(1);
    const PositionalEncoding encoding(parameters.root(), Positions::alibi, 4, 8 * heads, {.n_heads = heads});
    BOOST_REQUIRE_EQUAL(encoding.relative.slopes.size(), static_cast<std::size_t>(heads));
    for (int h = 0; h < heads; ++h)
      BOOST_CHECK_CLOSE(static_cast<double>(encoding.relative.slopes[static_cast<std::size_t>(h)]),
                        std::pow(2, h < power ? -8.0 * (h + 1) / power : -4.0 * (2 * (h - power) + 1) / power), 1e-4);
  }
}
