// Beam search against greedy decoding, against an exhaustive search, and against its own definition.
// needs: precision: double; full: single
#include <seppo/models/decoding/beam.h>

#include "models/all_targets.h"
#include "support/precision.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

using namespace seppo;

namespace {

// A small model with large weights, so that its choices differ from row to row.
struct Fixture {
  explicit Fixture(int vocabulary, std::uint64_t seed = 1)
      : parameters(seed),
        model(parameters.root(), {.src_vocabulary = vocabulary,
                                  .tgt_vocabulary = vocabulary,
                                  .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12},
                                  .enc_layers = 1,
                                  .dec_layers = 2,
                                  .max_length = 12}) {
    tape().clear();
    for (real& v : parameters.edit()) v *= 2;
    RandomStream random(seed, Purpose::test);
    for (const int length : {4, 1, 7, 3}) {
      std::vector<int> sequence;
      for (int i = 0; i < length; ++i)
        sequence.push_back(static_cast<int>(random.below(static_cast<unsigned>(vocabulary))));
      src.add(sequence);
    }
  }

  // log p(target | source s), without cache or beam: one full forward pass.
  double log_probability(std::size_t s, const std::vector<int>& target, int bos) const {
    const UseMode eval(Mode::eval);
    const TapeMark mark;
    Ragged source, input;
    source.add(src[s]);
    std::vector<int> tokens{bos};
    tokens.insert(tokens.end(), target.begin(), target.end() - 1);
    input.add(tokens);
    const Tensor logits = log_softmax(model.logits(source, input));
    double sum = 0;
    for (std::size_t i = 0; i < target.size(); ++i)
      sum += static_cast<double>(logits.values()[i * logits.cols() + static_cast<std::size_t>(target[i])]);
    return sum;
  }

  Parameters parameters;
  Transformer model;
  Ragged src;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_beam_of_one_is_greedy_decoding) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Fixture f(6, seed);
    const auto greedy = greedy_decode(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 9});
    for (const double penalty : {0.0, 0.6, 3.0}) {
      const auto found =
          beam_search(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 9, .beam = 1, .length_penalty = penalty});
      for (std::size_t s = 0; s < f.src.size(); ++s) BOOST_TEST(found[s].at(0).tokens == greedy[s]);
    }
  }
}

// A beam wide enough for all targets misses none: its results are all possible targets, from the best down.
BOOST_AUTO_TEST_CASE(a_beam_that_is_wide_enough_finds_the_best_of_all_targets) {
  constexpr int kVocabulary = 4, kEos = 2;
  const auto targets = small::all_targets(kVocabulary, kEos, 4);
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const double penalty : {0.0, 0.6, 2.0}) {
      const Fixture f(kVocabulary, seed);
      const auto found = beam_search(f.model, f.src,
                                     {.bos = 1,
                                      .eos = kEos,
                                      .max_length = 4,
                                      .beam = static_cast<int>(targets.size()),
                                      .n_best = 7,
                                      .length_penalty = penalty});
      for (std::size_t s = 0; s < f.src.size(); ++s) {
        std::vector<std::pair<double, std::vector<int>>> expected;
        for (const auto& target : targets) {
          const double p = f.log_probability(s, target, 1);
          expected.emplace_back(p / std::pow((5 + static_cast<double>(target.size())) / 6, penalty), target);
        }
        std::sort(expected.rbegin(), expected.rend());
        BOOST_REQUIRE_EQUAL(found[s].size(), 7);
        for (std::size_t i = 0; i < 7; ++i) {
          BOOST_TEST(found[s][i].tokens == expected[i].second);
          BOOST_CHECK_SMALL((found[s][i].score - expected[i].first) / std::max(1.0, std::abs(expected[i].first)),
                            2 * test::kTolerance);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(what_is_returned_is_sorted_unique_and_scored_by_the_formula) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Fixture f(9, seed);
    const BeamOptions options{.bos = 0, .eos = 3, .max_length = 8, .beam = 5, .n_best = 5, .length_penalty = 0.8};
    const auto found = beam_search(f.model, f.src, options);
    for (const int beam : {2, 5}) {  // tokens are told once they are those of the best
      std::vector<std::vector<int>> told(f.src.size());
      const auto tell = [&](std::size_t s, int token) { told[s].push_back(token); };
      const auto best = beam_search(f.model, f.src, {.bos = 0, .eos = 3, .max_length = 8, .beam = beam}, tell);
      for (std::size_t s = 0; s < told.size(); ++s) BOOST_CHECK(told[s] == best[s][0].tokens);
    }
    BOOST_REQUIRE_EQUAL(found.size(), f.src.size());
    for (std::size_t s = 0; s < found.size(); ++s) {
      BOOST_CHECK_EQUAL(found[s].size(), 5);
      std::set<std::vector<int>> distinct;
      for (std::size_t i = 0; i < found[s].size(); ++i) {
        const Hypothesis& h = found[s][i];
        distinct.insert(h.tokens);
        BOOST_CHECK(std::count(h.tokens.begin(), h.tokens.end(), 3) == (h.tokens.back() == 3));
        BOOST_CHECK(h.tokens.back() == 3 || h.tokens.size() == 8);
        const double length = static_cast<double>(h.tokens.size());
        BOOST_CHECK_SMALL((h.log_probability - f.log_probability(s, h.tokens, 0)) / length, test::kTolerance);
        BOOST_CHECK_CLOSE(h.score, h.log_probability / std::pow((5 + length) / 6, 0.8), 1e-10);
        if (i > 0) BOOST_CHECK_LE(h.score, found[s][i - 1].score);
      }
      BOOST_CHECK_EQUAL(distinct.size(), found[s].size());
    }
  }
}

// Follows the definition in beam.h step by step, one source at a time, with full forward passes.
BOOST_AUTO_TEST_CASE(a_beam_follows_its_definition) {
  constexpr int kVocabulary = 7, kEos = 3, kLength = 5;
  const auto by_probability = [](const Hypothesis& a, const Hypothesis& b) {
    return a.log_probability > b.log_probability;
  };
  std::size_t pruned = 0;  // hypotheses whose continuations all fell out of the beam
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    for (const int beam : {2, 3, 5}) {
      const Fixture f(kVocabulary, seed);
      const auto found = beam_search(
          f.model, f.src,
          {.bos = 0, .eos = kEos, .max_length = kLength, .beam = beam, .n_best = beam, .length_penalty = 0.7});
      for (std::size_t s = 0; s < f.src.size(); ++s) {
        std::vector<Hypothesis> open(1), ended;
        for (int length = 0; length < kLength; ++length) {
          std::vector<Hypothesis> all;
          for (const Hypothesis& row : open)
            for (int token = 0; token < kVocabulary; ++token) {
              Hypothesis next = row;
              next.tokens.push_back(token);
              next.log_probability = f.log_probability(s, next.tokens, 0);
              all.push_back(next);
            }
          std::stable_sort(all.begin(), all.end(), by_probability);
          all.resize(std::min(all.size(), static_cast<std::size_t>(beam) - ended.size()));
          std::set<std::vector<int>> parents;
          for (const Hypothesis& h : all) parents.insert({h.tokens.begin(), h.tokens.end() - 1});
          pruned += open.size() - parents.size();
          open.clear();
          for (Hypothesis& h : all) (h.tokens.back() == kEos ? ended : open).push_back(h);
        }
        ended.insert(ended.end(), open.begin(), open.end());
        for (Hypothesis& h : ended)
          h.score = h.log_probability / std::pow((5 + static_cast<double>(h.tokens.size())) / 6, 0.7);
        std::stable_sort(ended.begin(), ended.end(),
                         [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
        BOOST_REQUIRE_EQUAL(found[s].size(), ended.size());
        for (std::size_t i = 0; i < ended.size(); ++i) BOOST_TEST(found[s][i].tokens == ended[i].tokens);
      }
    }
  BOOST_CHECK_GT(pruned, 50);
}

// A single source may do worse with a wider beam, as pruning can lose what greedy decoding finds; the sum should not.
BOOST_AUTO_TEST_CASE(wider_beams_find_likelier_targets) {
  std::vector<double> sums;
  for (const int beam : {1, 2, 4, 8}) {
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const Fixture f(9, seed);
      for (const auto& best :
           beam_search(f.model, f.src, {.bos = 0, .eos = 3, .max_length = 8, .beam = beam, .length_penalty = 0}))
        sum += best[0].score;
    }
    sums.push_back(sum);
  }
  BOOST_CHECK(std::is_sorted(sums.begin(), sums.end()));
  BOOST_CHECK_GT(sums[3], sums[0] + 1);
}

BOOST_AUTO_TEST_CASE(sources_do_not_see_each_other) {
  const Fixture f(9);
  const BeamOptions options{.bos = 0, .eos = 3, .max_length = 8, .beam = 3, .n_best = 2};
  const auto together = beam_search(f.model, f.src, options);
  for (std::size_t s = 0; s < f.src.size(); ++s) {
    Ragged one;
    one.add(f.src[s]);
    const auto alone = beam_search(f.model, one, options);
    for (std::size_t i = 0; i < 2; ++i) {
      BOOST_TEST(alone[0][i].tokens == together[s][i].tokens);
      BOOST_CHECK_SMALL((alone[0][i].score - together[s][i].score) / std::max(1.0, std::abs(alone[0][i].score)),
                        2 * test::kTolerance);
    }
  }
  BOOST_CHECK(beam_search(f.model, Ragged(), options).empty());
}

BOOST_AUTO_TEST_CASE(targets_that_end_at_once_and_targets_that_never_end) {
  Fixture f(6);
  const auto bias = f.model.output->bias.data();
  bias[4] = 1000;
  for (const auto& best : beam_search(f.model, f.src, {.bos = 0, .eos = 4, .max_length = 5}))
    BOOST_TEST(best[0].tokens == std::vector<int>{4});
  bias[4] = -1000;
  for (const auto& best : beam_search(f.model, f.src, {.bos = 0, .eos = 4, .max_length = 5}))
    BOOST_CHECK_EQUAL(best[0].tokens.size(), 5);
  // A beam wider than the number of possible targets returns all of them.
  const auto all = beam_search(f.model, f.src, {.bos = 0, .eos = 4, .max_length = 1, .beam = 50, .n_best = 50});
  for (const auto& found : all) BOOST_CHECK_EQUAL(found.size(), 6);
}

BOOST_AUTO_TEST_CASE(bad_options) {
  Fixture f(6);
  const auto search = [&](BeamOptions options) { beam_search(f.model, f.src, options); };
  BOOST_CHECK_THROW(search({.beam = 0}), ArgumentError);
  BOOST_CHECK_THROW(search({.beam = 2, .n_best = 3}), ArgumentError);
  BOOST_CHECK_THROW(search({.beam = 2, .n_best = 0}), ArgumentError);
  BOOST_CHECK_THROW(search({.length_penalty = -1}), ArgumentError);
  BOOST_CHECK_THROW(search({.length_penalty = NAN}), ArgumentError);
  BOOST_CHECK_THROW(search({.max_length = 0}), ArgumentError);
  BOOST_CHECK_THROW(search({.max_length = 13}), ArgumentError);
  f.model.output->bias.data()[2] = std::numeric_limits<real>::quiet_NaN();
  BOOST_CHECK_THROW(search({.max_length = 5}), NumericError);
}

// The rows of a cache may be continued several times, or not at all.
BOOST_AUTO_TEST_CASE(a_cache_continues_the_selected_rows) {
  const Fixture f(6);
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  const Tensor memory = f.model.encode(f.src);
  KeyValueCache cache = f.model.make_cache(f.src.size(), 5);
  const auto step = [&](std::initializer_list<int> tokens) {
    Ragged next;
    for (const int token : tokens) next.add({&token, 1});
    return f.model.decode(next, memory, f.src.offsets, &cache);
  };
  step({1, 2, 3, 4});
  cache.select(std::vector<int>{0, 0, 2, 2, 2}, std::vector<int>{0, 2, 2, 5, 5});
  step({1, 5, 0, 1, 2});
  cache.select(std::vector<int>{1, 0, 4, 2}, std::vector<int>{0, 2, 2, 4, 4});
  const Tensor scores = step({3, 3, 2, 1});
  const std::vector<std::vector<int>> rows{{1, 5, 3}, {1, 1, 3}, {3, 2, 2}, {3, 0, 1}};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Ragged source, target;
    source.add(f.src[r < 2 ? 0 : 2]);
    target.add(rows[r]);
    const Tensor whole = f.model.logits(source, target);
    for (std::size_t j = 0; j < 6; ++j)
      BOOST_CHECK_SMALL(scores.values()[r * 6 + j] - whole.values()[12 + j], real(1e-5));
  }
  const auto select = [&](std::vector<int> parents, std::vector<int> offsets) { cache.select(parents, offsets); };
  BOOST_CHECK_THROW(select({2}, {0, 1, 1, 1, 1}), IndexError);  // a row of another source
  BOOST_CHECK_THROW(select({-1}, {0, 1, 1, 1, 1}), IndexError);
  BOOST_CHECK_THROW(select({0}, {0, 1, 1, 1}), ShapeError);     // too few sources
  BOOST_CHECK_THROW(select({0}, {0, 2, 2, 2, 2}), ShapeError);  // more rows than parents
  BOOST_CHECK_THROW(select({0}, {0, 1, 0, 1, 1}), ShapeError);  // decreasing
  BOOST_CHECK_THROW(select({0, 0}, {1, 2, 2, 2, 2}), ShapeError);
  BOOST_CHECK_THROW(select({}, {}), ShapeError);
}

// All tokens but one are equally probable: ties are broken by the lowest id, and continuations of the better target
// come before those of the other.
BOOST_AUTO_TEST_CASE(ties_go_to_the_better_target_and_the_lowest_id) {
  Fixture f(6);
  std::fill_n(f.model.output->weight.data(), 6 * 8, real{0});
  real* const bias = f.model.output->bias.data();
  for (int token = 0; token < 6; ++token) bias[token] = token == 4 ? 0.25 : 0;  // values whose sums are exact
  const auto greedy = greedy_decode(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 3});
  for (const auto& target : greedy) BOOST_TEST(target == (std::vector<int>{4, 4, 4}));
  const auto found =
      beam_search(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 2, .beam = 4, .n_best = 4, .length_penalty = 0});
  for (const auto& best : found) {
    const std::vector<std::vector<int>> expected{{4, 4}, {4, 0}, {4, 1}, {4, 2}};
    for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(best[i].tokens == expected[i], "target " << i);
  }
  bias[4] = 0;  // now all tokens are equally probable
  for (const auto& target : greedy_decode(f.model, f.src, {.bos = 3, .eos = 5, .max_length = 3}))
    BOOST_TEST(target == (std::vector<int>{0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(scores_that_are_not_finite_are_refused) {
  constexpr real kInfinity = std::numeric_limits<real>::infinity();
  for (const real bad : {std::numeric_limits<real>::quiet_NaN(), kInfinity}) {
    Fixture f(6);
    f.model.output->bias.data()[2] = bad;
    BOOST_CHECK_THROW(greedy_decode(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 5}), NumericError);
    BOOST_CHECK_THROW(beam_search(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 5}), NumericError);
  }
  Fixture f(6);
  for (int token = 0; token < 6; ++token) f.model.output->bias.data()[token] = -kInfinity;
  BOOST_CHECK_THROW(greedy_decode(f.model, f.src, {.bos = 0, .eos = 5, .max_length = 5}), NumericError);
}
