// Parameters, optimiser, schedules, positional encodings.
#define BOOST_TEST_MODULE nn
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/modules/dropout.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/feed_forward.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/modules/multi_head_attention.h>
#include <seppo/nn/modules/positional_encoding.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/optim/schedule.h>

#include "support/ranges.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

using namespace seppo;

BOOST_AUTO_TEST_CASE(parameters_are_flat_named_and_stable) {
  Parameters parameters(1);
  const Linear a(parameters.root() / "a", 3, 5);
  const real first = a.weight.values()[0];
  for (int i = 0; i < 50; ++i)
    static_cast<void>(Linear(parameters.root() / "more" / i, 20, 20));  // makes the block grow
  BOOST_CHECK_EQUAL(a.weight.values()[0], first);
  BOOST_CHECK_EQUAL(a.weight.data(), parameters.values().data() + parameters.find("a.weight")->offset);
  BOOST_CHECK_EQUAL(parameters.count(), 3 * 5 + 5 + 50 * (400 + 20));
  BOOST_CHECK(parameters.find("more.49.bias") && !parameters.find("more.50.bias"));
  BOOST_CHECK(parameters.find("a.weight")->decay && !parameters.find("a.bias")->decay);
  tape().clear();
  tape().backward(sum(a(full({2, 3}, 1))));
  BOOST_CHECK_EQUAL(parameters.gradients()[parameters.find("a.bias")->offset], 2);
  for (const int value : {1, 2}) {  // gradients are moved, too
    std::ranges::fill(parameters.gradients(), static_cast<real>(value));
    static_cast<void>(Linear(parameters.root() / "last" / value, 200, 200));
    BOOST_CHECK_EQUAL(parameters.gradients()[parameters.find("a.bias")->offset], value);
  }
  BOOST_CHECK_EQUAL(parameters.gradients()[parameters.find("last.2.bias")->offset], 0);
}

BOOST_AUTO_TEST_CASE(a_parameter_dies_with_its_parameters) {
  Tensor handle;
  {
    Parameters parameters(1);
    handle = parameters.root().parameter("p", {3}, init_normal(1));
    BOOST_CHECK_EQUAL(handle.numel(), 3);
  }
  BOOST_CHECK_THROW(handle.values(), StateError);
  BOOST_CHECK_THROW(square(handle), StateError);
}

// Modules continue with the new object; the old one is empty and may be reused.
BOOST_AUTO_TEST_CASE(parameters_can_be_moved) {
  static_assert(!std::is_copy_constructible_v<Parameters>);
  Parameters first(7);
  const Linear a(first.root() / "a", 3, 5);
  const Tensor one = first.root().constant({1}, init_ones());
  const std::vector<real> weight(a.weight.values().begin(), a.weight.values().end());
  Parameters second(std::move(first));
  BOOST_CHECK_EQUAL(second.seed(), 7u);
  BOOST_CHECK(first.entries().empty() && first.values().empty() && first.count() == 0);
  BOOST_CHECK_EQUAL(a.weight.data(), second.values().data());
  Parameters third(8);
  const Tensor old = third.root().parameter("old", {2}, init_normal(1));
  third = std::move(second);
  { const Parameters dies = std::move(second); }  // with the former content of `third`
  BOOST_CHECK_THROW(old.values(), StateError);
  static_cast<void>(Linear(third.root() / "more", 100, 100));  // makes the block grow
  BOOST_CHECK(std::equal(weight.begin(), weight.end(), a.weight.values().begin()));
  BOOST_CHECK_EQUAL(a.weight.describe(), "[5,3] (a.weight)");
  BOOST_CHECK_THROW(third.root().parameter("a.weight", {1}, init_normal(1)), ArgumentError);
  tape().clear();
  tape().backward(sum(a(full({2, 3}, 1)) * one));
  BOOST_CHECK_EQUAL(third.gradients()[third.find("a.bias")->offset], 2);
  const Linear again(first.root() / "a", 3, 5);  // `first` draws the same values again
  BOOST_CHECK(std::equal(weight.begin(), weight.end(), again.weight.values().begin()));
  std::vector<Parameters> several;
  for (std::uint64_t seed = 0; seed < 9; ++seed) {
    several.emplace_back(seed);
    several.back().root().parameter("p", {2}, init_normal(1));
  }
  for (const Parameters& p : several) BOOST_CHECK_EQUAL(p.count(), 2);
}

// For the sake of vector code that runs over them.
BOOST_AUTO_TEST_CASE(parameters_of_any_size_start_on_a_cache_line) {
  Parameters parameters(1);
  for (int size = 1; size <= 70; ++size)
    parameters.root().parameter("p" + std::to_string(size), {size}, init_normal(1));
  std::size_t end = 0;
  for (const auto& entry : parameters.entries()) {
    BOOST_CHECK_EQUAL(entry.offset * sizeof(real) % 64, 0);
    BOOST_CHECK(entry.offset >= end && entry.offset < end + 64 / sizeof(real));
    BOOST_CHECK_EQUAL(entry.tensor.data(), parameters.values().data() + entry.offset);
    end = entry.offset + entry.size();
  }
  BOOST_CHECK(parameters.values().size() >= end && parameters.values().size() * sizeof(real) % 64 == 0);
}

BOOST_AUTO_TEST_CASE(an_initialiser_that_throws_leaves_no_parameter) {
  Parameters parameters(1);
  const Init throws = [](std::span<real>, const Shape&, RandomStream&) { throw std::runtime_error("no values"); };
  BOOST_CHECK_THROW(parameters.root().parameter("w", {2, 3}, throws), std::runtime_error);
  BOOST_CHECK(parameters.entries().empty() && !parameters.find("w"));
  const Tensor w = parameters.root().parameter("w", {2, 3}, init_ones());
  BOOST_CHECK(w.values()[5] == 1 && parameters.count() == 6);
}

BOOST_AUTO_TEST_CASE(initial_values_depend_on_seed_and_name_only) {
  const auto values = [](std::uint64_t seed, bool other_first) {
    Parameters parameters(seed);
    if (other_first) static_cast<void>(Linear(parameters.root() / "other", 7, 7));
    const Linear l(parameters.root() / "l", 4, 4);
    return std::vector<real>(l.weight.values().begin(), l.weight.values().end());
  };
  BOOST_CHECK(values(1, false) == values(1, true));
  BOOST_CHECK(values(1, false) != values(2, false));
}

BOOST_AUTO_TEST_CASE(parameters_can_be_limited) {
  Parameters parameters(1, 100);
  parameters.root().parameter("a", {6, 10}, init_zeros());
  BOOST_CHECK_THROW(parameters.root().parameter("b", {1 << 20, 1 << 20}, init_zeros()), ArgumentError);
  BOOST_CHECK_THROW(parameters.root().parameter("b", {37}, init_zeros()), ArgumentError);
  BOOST_CHECK_THROW(parameters.root().buffer("b", {37}, init_zeros()), ArgumentError);
  parameters.root().parameter("b", {36}, init_zeros());  // 4 values of padding follow the first
  BOOST_CHECK_EQUAL(parameters.count(), 96);
  const Shape large{1 << 23, 1};
  parameters.root().constant(large, init_zeros());  // a table may be larger than the parameters, within reason
  BOOST_CHECK_THROW(parameters.root().constant({1 << 20, 1 << 16}, init_zeros()), ArgumentError);
  parameters.root().constant(large, init_zeros());
  BOOST_CHECK_THROW(parameters.root().constant({101}, init_zeros()), ArgumentError);
}

BOOST_AUTO_TEST_CASE(initialisers_have_their_spread) {
  Parameters parameters(3);
  const auto deviation = [](const Tensor& t) {
    double squares = 0;
    for (const real v : t.values()) squares += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(squares / static_cast<double>(t.numel()));
  };
  const Scope s = parameters.root();
  const auto largest = [](const Tensor& t) {
    double most = 0;
    for (const real v : t.values()) most = std::max(most, std::abs(static_cast<double>(v)));
    return most;
  };
  const Tensor xavier = s.parameter("x", {100, 300}, init_xavier_uniform());
  BOOST_CHECK_CLOSE(deviation(xavier), std::sqrt(2.0 / 400), 2);
  BOOST_CHECK_LE(largest(xavier), std::sqrt(6.0 / 400));
  BOOST_CHECK_CLOSE(deviation(s.parameter("s", {300, 100}, init_xavier_uniform(1, 3))), std::sqrt(2.0 / 200), 2);
  BOOST_CHECK_CLOSE(deviation(s.parameter("n", {100, 300}, init_normal(0.5))), 0.5, 2);
  BOOST_CHECK_CLOSE(deviation(s.parameter("k", {100, 300}, init_kaiming_uniform())), std::sqrt(2.0 / 300), 2);
}

// A thousand steps against the formula in double precision.
BOOST_AUTO_TEST_CASE(adam_follows_its_formula) {
  for (const bool decoupled : {true, false}) {
    Parameters parameters(5);
    parameters.root().parameter("w", {3, 7}, init_normal(1));
    parameters.root().parameter("b", {7}, init_normal(1));
    const AdamConfig o{.betas = {0.9, 0.98}, .eps = 1e-9, .weight_decay = 0.1, .decoupled = decoupled};
    Adam adam(parameters, o);
    const std::size_t n = parameters.values().size();
    std::vector<double> p(parameters.values().begin(), parameters.values().end()), m(n), v(n);
    RandomStream random(6, Purpose::test);
    for (int t = 1; t <= 1000; ++t) {
      const double lr = 1e-2 / t;
      for (const auto& e : parameters.entries())
        for (std::size_t i = e.offset; i < e.offset + e.size(); ++i) {
          const double raw = t <= 100 && i % 3 == 0 ? 0 : random.normal();
          parameters.gradients()[i] = static_cast<real>(raw);
          const double decay = e.decay ? o.weight_decay : 0;
          const double g = 0.5 * static_cast<double>(parameters.gradients()[i]) + (decoupled ? 0 : decay * p[i]);
          m[i] = o.betas[0] * m[i] + (1 - o.betas[0]) * g;
          v[i] = o.betas[1] * v[i] + (1 - o.betas[1]) * g * g;
          if (decoupled) p[i] -= lr * decay * p[i];
          p[i] -=
              lr * (m[i] / (1 - std::pow(o.betas[0], t))) / (std::sqrt(v[i] / (1 - std::pow(o.betas[1], t))) + o.eps);
        }
      adam.step(lr, 0.5);
    }
    for (const auto& e : parameters.entries())
      for (std::size_t i = e.offset; i < e.offset + e.size(); ++i)
        BOOST_CHECK_SMALL(static_cast<double>(parameters.values()[i]) - p[i], 2e-5);
    for (const real g : parameters.gradients()) BOOST_CHECK_EQUAL(g, 0);
    BOOST_CHECK_EQUAL(adam.steps(), 1000);
  }
}

BOOST_AUTO_TEST_CASE(adam_stays_finite_and_checks_its_options) {
  Parameters parameters(5);
  parameters.root().parameter("w", {4}, init_ones());
  Adam adam(parameters);
  for (const real g : {real{1e18f}, real{0}, real{1e-30f}}) {
    for (real& x : parameters.gradients()) x = g;
    adam.step(1e-3);
    for (const real v : parameters.values()) BOOST_CHECK(std::isfinite(v));
  }
  test::check_ranges(AdamConfig(), [&](const AdamConfig& config) { Adam(parameters, config); });
  parameters.root().parameter("late", {4}, init_ones());
  BOOST_CHECK_THROW(adam.step(1e-3), StateError);
}

BOOST_AUTO_TEST_CASE(clipping) {
  Parameters parameters(5);
  parameters.root().parameter("w", {2}, init_ones());
  parameters.gradients()[0] = 3;
  parameters.gradients()[1] = 4;
  BOOST_CHECK_CLOSE(gradient_norm(parameters), 5.0, 1e-9);
  BOOST_CHECK_EQUAL(clip_factor(5, 1), 0.2);
  BOOST_CHECK_EQUAL(clip_factor(5, 10), 1);
  BOOST_CHECK_EQUAL(clip_factor(5, 0), 1);
  parameters.gradients()[0] = 1e30f;  // its square overflows float
  BOOST_CHECK_CLOSE(gradient_norm(parameters), 1e30, 1e-4);
}

BOOST_AUTO_TEST_CASE(schedules) {
  using enum ScheduleKind;
  const Schedule a{cosine, 2, 0.5, 10, 110};
  BOOST_CHECK_CLOSE(a(5), 1.0, 1e-9);
  BOOST_CHECK_CLOSE(a(10), 2.0, 1e-9);
  BOOST_CHECK_CLOSE(a(60), 1.25, 1e-9);
  BOOST_CHECK_CLOSE(a(110), 0.5, 1e-9);
  BOOST_CHECK_CLOSE(a(1000), 0.5, 1e-9);
  const Schedule b{linear, 2, 0, 10, 110};
  BOOST_CHECK_CLOSE(b(5), 1.0, 1e-9);
  BOOST_CHECK_CLOSE(b(60), 1.0, 1e-9);
  BOOST_CHECK_SMALL(b(110), 1e-12);
  // A warm-up longer than the training run still rises.
  BOOST_CHECK_CLOSE((Schedule{cosine, 2, 0, 100, 50}(25)), 0.5, 1e-9);
  BOOST_CHECK_CLOSE((Schedule{linear, 2, 0, 50, 50}(50)), 2.0, 1e-9);
  BOOST_CHECK_CLOSE((Schedule{constant, 3, 0, 4}(1)), 0.75, 1e-9);
  BOOST_CHECK_CLOSE((Schedule{constant, 3}(1)), 3.0, 1e-9);
  const Schedule c{noam, 1 / std::sqrt(512.0 * 4000), 0, 4000};
  BOOST_CHECK_CLOSE(c(4000), 1 / std::sqrt(512.0 * 4000), 1e-9);
  BOOST_CHECK_CLOSE(c(16000), c(4000) / 2, 1e-9);
  BOOST_CHECK_CLOSE(c(1000), c(4000) / 4, 1e-9);
  BOOST_CHECK_THROW((Schedule{noam, 1}(1)), ArgumentError);
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

BOOST_AUTO_TEST_CASE(ragged_batches) {
  Ragged batch;
  batch.add(std::vector<int>{1, 2});
  batch.add({});
  batch.add(std::vector<int>{3});
  BOOST_CHECK_EQUAL(batch.size(), 3);
  BOOST_CHECK_EQUAL(batch[1].size(), 0);
  BOOST_CHECK_EQUAL(batch[2][0], 3);
  batch.clear();
  BOOST_CHECK(batch.size() == 0 && batch.tokens.empty());
}

BOOST_AUTO_TEST_CASE(ragged_batches_are_picked_and_shifted) {
  Ragged all;
  for (const std::vector<int>& sequence : std::vector<std::vector<int>>{{1, 2, 3}, {}, {4}, {5, 6}}) all.add(sequence);
  const std::vector<int> rows{3, 0, 3, 1};
  const Ragged picked = all.pick(rows);
  BOOST_CHECK((picked.tokens == std::vector<int>{5, 6, 1, 2, 3, 5, 6}));
  BOOST_CHECK((picked.offsets == std::vector<int>{0, 2, 5, 7, 7}));
  const Ragged read = all.without_last(), written = all.without_first();
  BOOST_CHECK((read.tokens == std::vector<int>{1, 2, 5} && written.tokens == std::vector<int>{2, 3, 6}));
  BOOST_CHECK((read.offsets == std::vector<int>{0, 2, 2, 2, 3} && written.offsets == read.offsets));
  for (const int row : {-1, 4}) BOOST_CHECK_THROW(all.pick(std::vector<int>{0, row}), IndexError);
}
