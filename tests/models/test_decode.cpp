// Greedy decoding with the cache against full recomputation.
#include <seppo/autograd/core/guards.h>
#include <seppo/models/decoding/beam.h>
#include <seppo/models/language_model.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace seppo;

namespace {

struct Fixture {
  explicit Fixture(Norm norm = Norm::post)
      : parameters(11),
        model(parameters.root(), {.src_vocabulary = 12,
                                  .tgt_vocabulary = 12,
                                  .layer = {.d_model = 16, .n_heads = 4, .d_ff = 24, .dropout = 0.1, .norm = norm},
                                  .enc_layers = 2,
                                  .dec_layers = 2,
                                  .max_length = 12}) {
    tape().clear();
    RandomStream random(3, Purpose::test);
    for (const int length : {4, 1, 7, 3}) {
      std::vector<int> sequence;
      for (int i = 0; i < length; ++i) sequence.push_back(static_cast<int>(random.below(12)));
      src.add(sequence);
    }
  }
  Parameters parameters;
  Transformer model;
  Ragged src;
};

int best(const Tensor& logits, std::size_t row) {
  const real* const x = logits.data() + row * logits.cols();
  return static_cast<int>(std::max_element(x, x + logits.cols()) - x);
}

}  // namespace

BOOST_AUTO_TEST_CASE(cached_and_uncached_logits_agree) {
  for (const Norm norm : {Norm::post, Norm::pre}) {
    Fixture f(norm);
    const UseMode eval(Mode::eval);
    const Tensor memory = f.model.encode(f.src);
    KeyValueCache cache = f.model.make_cache(f.src.size(), 10);
    std::vector<std::vector<int>> prefixes(f.src.size());
    RandomStream random(5, Purpose::test);
    for (int step = 0; step < 10; ++step) {
      Ragged tokens, tgt;
      for (auto& prefix : prefixes) {
        prefix.push_back(static_cast<int>(random.below(12)));
        tokens.add({&prefix.back(), 1});
        tgt.add(prefix);
      }
      const Tensor cached = f.model.decode(tokens, memory, f.src.offsets, &cache),
                   whole = f.model.decode(tgt, memory, f.src.offsets);
      for (std::size_t s = 0; s < f.src.size(); ++s)
        for (std::size_t j = 0; j < 12; ++j) {
          const real expected = whole.values()[static_cast<std::size_t>(tgt.offsets[s + 1] - 1) * 12 + j];
          BOOST_CHECK_SMALL(cached.values()[s * 12 + j] - expected, real{1e-5f});
        }
    }
    Ragged more;
    for (int s = 0; s < 4; ++s) more.add(std::vector<int>{0});
    BOOST_CHECK_THROW(f.model.decode(more, memory, f.src.offsets, &cache), StateError);
  }
}

// In single precision; the exhaustive cases are in test_generate.cpp.
BOOST_AUTO_TEST_CASE(a_cached_language_model_agrees_with_the_whole_one) {
  const Fixture f;  // for its batch
  Parameters parameters(11);
  const LanguageModel model(parameters.root(), {.vocabulary = 12, .layer = {.d_model = 16, .n_heads = 4, .d_ff = 24}});
  const UseMode eval(Mode::eval);
  KeyValueCache cache = model.make_cache(f.src.size());
  model(f.src, &cache);
  Ragged texts = f.src;
  for (int step = 0; step < 10; ++step) {
    Ragged next, longer;
    for (std::size_t s = 0; s < f.src.size(); ++s) {
      std::vector<int> text(texts[s].begin(), texts[s].end());
      text.push_back((3 * step + static_cast<int>(s)) % 12);
      next.add({&text.back(), 1});
      longer.add(text);
    }
    texts = longer;
    const Tensor cached = model(next, &cache), whole = model(texts);
    for (std::size_t s = 0; s < f.src.size(); ++s)
      for (std::size_t j = 0; j < 12; ++j)
        BOOST_CHECK_SMALL(
            cached.values()[s * 12 + j] - whole.values()[static_cast<std::size_t>(texts.offsets[s + 1] - 1) * 12 + j],
            real{1e-5f});
  }
}

BOOST_AUTO_TEST_CASE(greedy_takes_the_best_token_until_the_end_token) {
  Fixture f;
  const BeamOptions options{.bos = 0, .eos = 5, .max_length = 9};
  const auto targets = greedy_decode(f.model, f.src, options);
  const UseMode eval(Mode::eval);
  for (std::size_t s = 0; s < f.src.size(); ++s) {
    Ragged src;
    src.add(f.src[s]);
    std::vector<int> prefix{0};
    while (prefix.size() <= 9 && (prefix.size() == 1 || prefix.back() != 5)) {
      Ragged tgt;
      tgt.add(prefix);
      prefix.push_back(best(f.model.logits(src, tgt), prefix.size() - 1));
    }
    prefix.erase(prefix.begin());
    BOOST_CHECK_MESSAGE(targets[s] == prefix, "sequence " << s);
  }
}

BOOST_AUTO_TEST_CASE(an_answer_does_not_depend_on_its_batch) {
  Fixture f;
  const BeamOptions options{.bos = 0, .eos = 5, .max_length = 9};
  const auto together = greedy_decode(f.model, f.src, options);
  for (std::size_t s = 0; s < f.src.size(); ++s) {
    Ragged alone;
    alone.add(f.src[s]);
    BOOST_CHECK(greedy_decode(f.model, alone, options)[0] == together[s]);
  }
  BOOST_CHECK(greedy_decode(f.model, Ragged{}, options).empty());
}

BOOST_AUTO_TEST_CASE(decoding_leaves_the_tape_as_it_was) {
  Fixture f;
  const Tensor before = full({3}, 2);
  const std::size_t nodes = tape().size();
  greedy_decode(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 9});
  BOOST_CHECK_EQUAL(tape().size(), nodes);
  BOOST_CHECK(tape().mode == Mode::train);
  BOOST_CHECK_EQUAL(before.values()[2], 2);
  BOOST_CHECK_THROW(greedy_decode(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 13}), ArgumentError);
  BOOST_CHECK_THROW(greedy_decode(f.model, f.src, {.bos = 12, .eos = 5, .max_length = 9}), IndexError);
}

// Without a mask, an encoder treats its rows alike but for their positions: tokens in another order, with the positions
// that they had, have the same outputs.
BOOST_AUTO_TEST_CASE(positions_can_be_given) {
  Fixture f;
  const Inference eval;
  const Ragged turned = Ragged::of({{f.src[2].rbegin(), f.src[2].rend()}});
  const std::vector<int> down{6, 5, 4, 3, 2, 1, 0};
  const Tensor usual = f.model.encode(Ragged::of({{f.src[2].begin(), f.src[2].end()}}));
  const Tensor memory = f.model.encode(turned, down);  // [7, 16]
  for (std::size_t row = 0; row < 7; ++row)
    for (std::size_t j = 0; j < 16; ++j)
      BOOST_CHECK_SMALL(usual.values()[row * 16 + j] - memory.values()[(6 - row) * 16 + j], real{1e-5f});

  const Ragged tgt = Ragged::of({{0, 3, 4}});
  const auto scores = [&](std::span<const int> positions) {
    const Tensor y = f.model.decode(tgt, memory, turned.offsets, nullptr, positions);
    return std::vector<real>(y.values().begin(), y.values().end());
  };
  BOOST_CHECK(scores({}) == scores(std::vector{0, 1, 2}));
  BOOST_CHECK(scores({}) != scores(std::vector{1, 2, 3}));
  BOOST_CHECK_THROW(f.model.encode(turned, std::vector{0, 1}), ShapeError);
  for (const int last : {-1, 12}) {
    std::vector<int> outside = down;
    outside[6] = last;
    BOOST_CHECK_THROW(f.model.encode(turned, outside), IndexError);
  }
}

BOOST_AUTO_TEST_CASE(decoding_takes_the_positions_of_sources) {
  Fixture f;
  std::vector<int> positions(f.src.tokens.size());
  for (std::size_t row = 0; row < positions.size(); ++row) positions[row] = static_cast<int>(5 * row % 12);
  const BeamOptions options{.bos = 0, .eos = 5, .max_length = 6, .src_positions = positions};
  const auto targets = greedy_decode(f.model, f.src, options);
  BOOST_CHECK(targets != greedy_decode(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 6}));
  const Inference eval;
  const Tensor memory = f.model.encode(f.src, positions);
  for (std::size_t s = 0; s < f.src.size(); ++s) {
    std::vector<int> read{0};
    for (const int token : targets[s]) {
      std::vector<std::vector<int>> tgt(4, {0});  // the other targets do not matter
      tgt[s] = read;
      const Tensor y = f.model.decode(Ragged::of(tgt), memory, f.src.offsets);
      BOOST_CHECK_EQUAL(best(y, s + read.size() - 1), token);
      read.push_back(token);
    }
  }
}

// The first call computes the keys and values of the memory; later calls reuse them.
BOOST_AUTO_TEST_CASE(a_cache_reads_the_memory_once) {
  const Fixture f;
  const UseMode eval(Mode::eval);
  const auto run = [&](bool is_soiled) {
    const TapeMark mark;
    const Tensor memory = f.model.encode(f.src);
    KeyValueCache cache = f.model.make_cache(f.src.size(), 2);
    Ragged tokens;
    for (int s = 0; s < 4; ++s) tokens.add(std::vector<int>{s});
    f.model.decode(tokens, memory, f.src.offsets, &cache);
    if (is_soiled) std::fill_n(memory.data(), memory.numel(), real{1e30f});
    const Tensor scores = f.model.decode(tokens, memory, f.src.offsets, &cache);
    return std::vector<real>(scores.values().begin(), scores.values().end());
  };
  BOOST_CHECK(run(true) == run(false));
}
