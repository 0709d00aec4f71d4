// Philox against Random123, the distributions built on it, and dropout masks.
// needs: simd: avx2 plain
#include <Random123/philox.h>
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

using namespace seppo;
using Words = std::array<std::uint32_t, 4>;

// The known answers for philox4x32-10 in Random123's kat_vectors.
BOOST_AUTO_TEST_CASE(philox_known_answers) {
  BOOST_CHECK((philox(0, {0, 0, 0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  BOOST_CHECK(
      (philox(~std::uint64_t{0}, {~0u, ~0u, ~0u, ~0u}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  BOOST_CHECK((philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
               Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

BOOST_AUTO_TEST_CASE(philox_gives_the_numbers_of_random123) {
  std::uint64_t bits = 1;
  const auto word = [&] {
    return static_cast<std::uint32_t>((bits = bits * 6364136223846793005u + 1442695040888963407u) >> 32);
  };
  for (int i = 0; i < 10'000; ++i) {
    const Words counter{word(), word(), word(), word()};
    const std::uint32_t k0 = word(), k1 = word();
    const auto expected = r123::Philox4x32()({{counter[0], counter[1], counter[2], counter[3]}}, {{k0, k1}});
    BOOST_REQUIRE(
        (philox(std::uint64_t{k1} << 32 | k0, counter) == Words{expected[0], expected[1], expected[2], expected[3]}));
  }
}

BOOST_AUTO_TEST_CASE(streams_are_functions_of_seed_purpose_and_index) {
  const auto first = [](RandomStream stream) { return stream.next(); };
  const std::uint32_t base = first({5, Purpose::init, 7});
  BOOST_CHECK_EQUAL(base, first({5, Purpose::init, 7}));
  BOOST_CHECK_NE(base, first({6, Purpose::init, 7}));
  BOOST_CHECK_NE(base, first({5, Purpose::shuffle, 7}));
  BOOST_CHECK_NE(base, first({5, Purpose::init, 8}));
  BOOST_CHECK_NE(base, first({5, Purpose::init, (std::uint64_t{1} << 32) + 7}));
  first({~std::uint64_t{0}, Purpose::init, 0});
  // A stream returns Philox's words one after another, and derives all distributions from them.
  const std::uint64_t index = (std::uint64_t{5} << 32) + 7;
  const auto word = [=](std::uint32_t i) {
    return philox(9, {i / 4, 7, 5, static_cast<std::uint32_t>(Purpose::data) << 24})[i % 4];
  };
  const auto fraction = [=](std::uint32_t i) {
    return std::ldexp(static_cast<double>((std::uint64_t{word(i)} << 32 | word(i + 1)) >> 11), -53);
  };
  RandomStream words(9, Purpose::data, index), uniforms = words, normals = words, dice = words;
  for (std::uint32_t i = 0; i < 40; i += 4) {
    for (std::uint32_t k = 0; k < 4; ++k) BOOST_CHECK_EQUAL(words.next(), word(i + k));
    for (std::uint32_t k = 0; k < 4; k += 2) BOOST_CHECK_EQUAL(uniforms.uniform(), fraction(i + k));
    for (std::uint32_t k = 0; k < 4; ++k) BOOST_CHECK_EQUAL(dice.below(6), std::uint64_t{word(i + k)} * 6 >> 32);
    const double radius = std::sqrt(-2 * std::log(1 - fraction(i))), angle = 2 * std::acos(-1.0) * fraction(i + 2);
    BOOST_CHECK_SMALL(normals.normal() - radius * std::cos(angle), 1e-13);
    BOOST_CHECK_SMALL(normals.normal() - radius * std::sin(angle), 1e-13);
  }
}

BOOST_AUTO_TEST_CASE(distributions) {
  RandomStream random(1, Purpose::test);
  constexpr int n = 200'000;
  std::vector<double> normals, uniforms;
  for (int i = 0; i < n; ++i) normals.push_back(random.normal()), uniforms.push_back(random.uniform());
  // Kolmogorov-Smirnov at the 1 % level.
  const auto distance = [&](std::vector<double> x, auto cdf) {
    std::sort(x.begin(), x.end());
    double largest = 0;
    for (int i = 0; i < n; ++i) {
      const double c = cdf(x[static_cast<std::size_t>(i)]);
      largest =
          std::max({largest, std::abs(c - static_cast<double>(i) / n), std::abs(c - static_cast<double>(i + 1) / n)});
    }
    return largest;
  };
  BOOST_CHECK_LT(distance(normals, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }), 1.63 / std::sqrt(n));
  BOOST_CHECK_LT(distance(uniforms, [](double x) { return x; }), 1.63 / std::sqrt(n));
  std::array<int, 7> counts{};
  for (int i = 0; i < n; ++i) ++counts[random.below(7)];
  for (const int count : counts) BOOST_CHECK_LT(std::abs(count - n / 7), 5 * std::sqrt(n / 7.0));
}

BOOST_AUTO_TEST_CASE(permutations) {
  const auto p = random_permutation(1000, {3, Purpose::shuffle, 1});
  BOOST_CHECK(p == random_permutation(1000, {3, Purpose::shuffle, 1}));
  BOOST_CHECK(p != random_permutation(1000, {3, Purpose::shuffle, 2}));
  std::vector<int> sorted(p);
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < 1000; ++i) BOOST_CHECK_EQUAL(sorted[static_cast<std::size_t>(i)], i);
  BOOST_CHECK(random_permutation(0, {3, Purpose::shuffle}).empty());
}

BOOST_AUTO_TEST_CASE(dropping_all_or_nothing) {
  tape().clear();
  const Tensor x = variable({3}, {1, 2, 3}), y = variable({3}, {10, 20, 30});
  const Tensor none = add_dropout(x, y, 0), all = add_dropout(x, y, 1), zeros = dropout(y, 1);
  tape().backward(none + 2 * all + zeros, std::vector<real>{3, 5, 7});
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_CHECK_EQUAL(none.values()[i], x.values()[i] + y.values()[i]);
    BOOST_CHECK_EQUAL(all.values()[i], x.values()[i]);
    BOOST_CHECK_EQUAL(zeros.values()[i], 0);
    BOOST_CHECK_EQUAL(x.grad()[i], 3 * y.grad()[i]);
    BOOST_CHECK_EQUAL(y.grad()[i], static_cast<real>(3 + 2 * i));
  }
}

BOOST_AUTO_TEST_CASE(dropout_keeps_the_stated_share_and_mean) {
  Tape& t = tape();
  for (const double p : {0.1, 0.5, 0.9}) {
    t.clear();
    t.random = {1, 2, 3, 0};
    const int n = 1'000'000;
    const Tensor x = full({n}, 1);
    const Tensor y = dropout(x, p);
    double kept = 0;
    for (const real v : y.values()) kept += v != 0;
    BOOST_CHECK_LT(std::abs(kept / n - (1 - p)), 5 * std::sqrt(p * (1 - p) / n));
    const double expected = 1 / (1 - p);
    for (const real v : y.values()) BOOST_REQUIRE(v == 0 || std::abs(static_cast<double>(v) - expected) < 1e-5);
  }
}

// Vectorised masks equal those of scalar Philox.
// one_build: autograd/kernels/dropout-inl.h multiply_low store_interleaved
BOOST_AUTO_TEST_CASE(dropout_masks_are_philox) {
  Tape& t = tape();
  t.clear();
  t.random = {0x123456789abcdef0, 77, 5, 9};
  const Tensor y = dropout(full({300}, 1), 0.25);
  for (std::size_t i = 0; i < 300; ++i) {
    const auto block = static_cast<std::uint32_t>(16 * (i / 128) + i % 16);
    const auto words =
        philox(0x123456789abcdef0, {block, 5, 77, static_cast<std::uint32_t>(Purpose::dropout) << 24 | 9});
    const std::uint32_t half = words[i % 128 / 32] >> (i % 32 / 16 * 16) & 0xFFFF;
    BOOST_CHECK_EQUAL(y.values()[i] != 0, half >= 0x4000u);
  }
}

BOOST_AUTO_TEST_CASE(dropout_masks_depend_on_each_part_of_their_key_alone) {
  Tape& t = tape();
  const auto mask = [&](const RandomContext& context) {
    t.clear();
    t.random = context;
    const Tensor y = dropout(full({256}, 1), 0.5);
    return std::vector<real>(y.values().begin(), y.values().end());
  };
  const auto base = mask({1, 2, 3, 4});
  BOOST_CHECK(base == mask({1, 2, 3, 4}));
  for (const RandomContext& other : {RandomContext{9, 2, 3, 4}, {1, 9, 3, 4}, {1, 2, 9, 4}, {1, 2, 3, 9}}) {
    const auto changed = mask(other);
    int equal = 0;
    for (std::size_t i = 0; i < 256; ++i) equal += base[i] == changed[i];
    BOOST_CHECK(equal > 80 && equal < 176);  // about half
  }
  // Two dropouts within one step differ.
  t.clear();
  t.random = {1, 2, 3, 0};
  const Tensor x = full({256}, 1), a = dropout(x, 0.5), b = dropout(x, 0.5);
  BOOST_CHECK(!std::equal(a.values().begin(), a.values().end(), b.values().begin()));
}

// The site shares a word of the counter with the purpose: a step with too many dropouts must not draw the bits of
// another purpose.
BOOST_AUTO_TEST_CASE(dropout_sites_never_reach_the_purpose) {
  Tape& t = tape();
  t.clear();
  const Tensor x = full({256}, 1);
  t.random = {1, 2, 3, RandomContext::kSites - 1};
  BOOST_CHECK_EQUAL(dropout(x, 0).values()[0], 1);  // uses no site
  const Tensor last = dropout(x, 0.5);
  BOOST_CHECK_THROW(dropout(x, 0.5), StateError);
  BOOST_CHECK_THROW(add_norm(x, x, full({256}, 1), full({256}, 1), {.dropout_before = 0.5}), StateError);
  t.random = {1, 2, 3, 0};
  const Tensor first = dropout(x, 0.5);
  BOOST_CHECK(!std::equal(first.values().begin(), first.values().end(), last.values().begin()));
}

// A loop that only clears the tape never runs out of masks, and a step's masks do not depend on those before.
BOOST_AUTO_TEST_CASE(clearing_a_tape_starts_a_step_of_dropout) {
  const auto mask = [] {
    const Tensor y = dropout(full({256}, 1), 0.5);
    return std::vector<real>(y.values().begin(), y.values().end());
  };
  Tape own;
  const UseTape use(own);
  const auto at_first = mask();
  own.clear();
  own.random.site = RandomContext::kSites - 1;  // as if after so many dropouts
  mask();
  BOOST_CHECK_EXCEPTION(mask(), StateError, [](const StateError& e) {
    return std::string(e.what()).ends_with("masks: call tape().clear() for each step");
  });
  own.clear();
  const auto second = mask(), of_the_same_step = mask();
  own.clear();
  const auto third = mask();
  BOOST_CHECK(at_first != second && second != third && second != of_the_same_step);
  Tape other;
  const UseTape use_other(other);
  BOOST_CHECK(mask() == at_first);
  other.clear(), other.clear();
  BOOST_CHECK(mask() == second);
}

// Whatever is assigned, from the seed alone to the whole context, and at which site of a step.
BOOST_AUTO_TEST_CASE(a_resumed_loop_has_the_same_masks) {
  const auto masks = [](Tape& own, int steps) {
    const UseTape use(own);
    std::vector<real> all;
    for (int step = 0; step < steps; ++step) {
      own.clear();
      for (int site = 0; site < 3; ++site)
        for (const real v : dropout(full({64}, 1), 0.5).values()) all.push_back(v);
    }
    return all;
  };
  for (const RandomContext& context : {RandomContext{1, 2, 3, 4}, RandomContext{.seed = 5}, RandomContext{}}) {
    Tape whole;
    whole.random = context;
    const std::vector<real> expected = masks(whole, 9);
    for (std::uint32_t taken = 0; taken <= 9; ++taken) {
      Tape first, second;
      first.random = context;
      std::vector<real> found = masks(first, static_cast<int>(taken));
      BOOST_CHECK(first.random.seed == context.seed && first.random.step == context.step + taken);
      second.random = {.seed = context.seed, .step = context.step + taken, .sample = context.sample};
      const std::vector<real> rest = masks(second, static_cast<int>(9 - taken));
      found.insert(found.end(), rest.begin(), rest.end());
      BOOST_CHECK(found == expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(random_tensors_follow_their_stream) {
  tape().clear();
  RandomStream stream(7, Purpose::test), same(7, Purpose::test), other(7, Purpose::test);
  const Tensor a = randn({3, 50}, stream), b = randn({150}, same);
  BOOST_CHECK(std::equal(a.values().begin(), a.values().end(), b.values().begin()));
  for (const real v : a.values()) BOOST_CHECK_EQUAL(v, static_cast<real>(other.normal()));
  BOOST_CHECK_NE(randn({}, stream).item(), a.values()[0]);  // the stream has advanced
  const Tensor u = uniform({100'000}, -2, 3, stream);
  double mean = 0;
  for (const real v : u.values()) {
    BOOST_REQUIRE(v >= -2 && v <= 3);
    mean += double{v} / 100'000;
  }
  BOOST_CHECK_SMALL(mean - 0.5, 5 * 5 / std::sqrt(12 * 100'000.0));
  BOOST_CHECK(!u.requires_grad());
  BOOST_CHECK_THROW(uniform({2}, 1, 0, stream), ArgumentError);
  BOOST_CHECK_EQUAL(uniform({2}, 1, 1, stream).at(1), 1);
}

BOOST_AUTO_TEST_CASE(an_index_is_the_number_below_as_an_int) {
  RandomStream numbers(7, Purpose::test), indices = numbers;
  for (const int n : {1, 2, 7, 1'000'003, 2'147'483'647})
    for (int i = 0; i < 20; ++i)
      BOOST_CHECK_EQUAL(indices.index(n), static_cast<int>(numbers.below(static_cast<std::uint32_t>(n))));
  BOOST_CHECK_THROW(indices.index(0), ArgumentError);
  BOOST_CHECK_THROW(indices.index(-1), ArgumentError);
}

BOOST_AUTO_TEST_CASE(streams_take_integers_of_any_type) {
  const int seed = 7, index = -2;
  RandomStream here(seed, Purpose::test, index), same(std::uint64_t{7}, Purpose::test, ~std::uint64_t{1});
  for (int i = 0; i < 20; ++i) BOOST_CHECK_EQUAL(here.next(), same.next());
}

BOOST_AUTO_TEST_CASE(a_stream_skips_what_would_be_drawn) {
  const RandomStream beginning(7, Purpose::test);
  for (std::uint64_t before = 0; before < 9; ++before)
    for (const unsigned skipped : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 1000u, 1001u, 4099u}) {
      RandomStream drawn = beginning;
      for (std::uint64_t i = 0; i < before; ++i) drawn.next();
      RandomStream jumped = drawn;
      for (unsigned i = 0; i < skipped; ++i) drawn.next();
      jumped.skip(skipped);
      for (int i = 0; i < 6; ++i) BOOST_REQUIRE_EQUAL(jumped.next(), drawn.next());
      BOOST_CHECK_EQUAL(jumped.normal(), drawn.normal());
    }
  RandomStream far = beginning, by_halves = beginning;
  far.skip(std::uint64_t{6} << 30);
  for (int half = 0; half < 2; ++half) by_halves.skip(std::uint64_t{3} << 30);
  BOOST_CHECK_EQUAL(far.next(), by_halves.next());
  RandomStream one = beginning, two = beginning;
  one.normal();
  one.skip(0);  // forgets the second of the pair
  for (int i = 0; i < 2; ++i) two.normal();
  BOOST_CHECK_EQUAL(one.normal(), two.normal());
}
