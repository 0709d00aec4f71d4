// Hooks, constraints, log probabilities and streaming of generate() and beam_search(): obeyed by random models, and
// equal to exhaustive searches and to whole texts without a cache.
// needs: precision: double
#include "models/all_targets.h"
#include "models/small_transformer.h"
#include "support/errors.h"
#include "support/precision.h"

#include <seppo/models/decoding/beam.h>
#include <seppo/models/decoding/constraints.h>
#include <seppo/models/decoding/generate.h>

#include <limits>
#include <map>
#include <numeric>

using namespace seppo;

namespace {

constexpr int kWords = 6, kBos = 0, kEos = 5;
constexpr real kInfinity = std::numeric_limits<real>::infinity();

using small::Tokens;

// Models with large weights, so that their choices differ from text to text.
struct Models {
  explicit Models(std::uint64_t seed, int vocabulary = kWords)
      : parameters(seed),
        language(parameters.root() / "language", {.vocabulary = vocabulary,
                                                  .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12, .norm = Norm::pre},
                                                  .n_layers = 1,
                                                  .max_length = 12}),
        transformer(parameters.root() / "transformer", {.src_vocabulary = vocabulary,
                                                        .tgt_vocabulary = vocabulary,
                                                        .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12},
                                                        .enc_layers = 1,
                                                        .dec_layers = 1,
                                                        .max_length = 12}) {
    tape().clear();
    for (real& v : parameters.edit()) v *= 3;
  }

  Parameters parameters;
  LanguageModel language;
  Transformer transformer;
  Ragged src = Ragged::of({{1, 2, 3}, {4}, {2, 2, 0, 1}});
};

double at(const Tensor& scores, std::size_t row, int token) {
  return static_cast<double>(scores.values()[row * scores.cols() + static_cast<std::size_t>(token)]);
}

// log p of each token after those before, from one pass over the whole target.
std::vector<double> log_probabilities(const Models& m, std::size_t source, const Tokens& target) {
  const Inference inference;
  Tokens input{kBos};
  input.insert(input.end(), target.begin(), target.end() - 1);
  const Tensor log_p = log_softmax(m.transformer.logits(m.src.pick({static_cast<int>(source)}), Ragged::of({input})));
  std::vector<double> found;
  for (std::size_t i = 0; i < target.size(); ++i) found.push_back(at(log_p, i, target[i]));
  return found;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Whether n tokens in a row that end after `begin` have occurred before.
bool repeats(const Tokens& text, std::size_t n, std::size_t begin) {
  for (std::size_t end = std::max(begin + 1, n); end <= text.size(); ++end)
    for (std::size_t other = n; other < end; ++other)
      if (std::equal(text.begin() + static_cast<long>(end - n), text.begin() + static_cast<long>(end),
                     text.begin() + static_cast<long>(other - n)))
        return true;
  return false;
}

// Random constraints that always leave a token.
struct Rules {
  explicit Rules(std::uint64_t seed) {
    RandomStream random(seed, Purpose::test);
    const int first = static_cast<int>(random.below(kEos));
    prefix = {first, (first + 1) % kEos};
    banned = (first + 2 + static_cast<int>(random.below(3))) % kEos;
    n = 2 + static_cast<int>(random.below(2));
  }

  ScoreHook hook(std::size_t prompt) const {
    return [=, this](std::span<real> scores, std::span<const int> text) {
      const std::size_t written = text.size() - prompt;
      if (written < prefix.size()) return keep_tokens(scores, {prefix[written]});
      ban_tokens(scores, {banned});
      ban_repeated_ngrams(scores, text, n);
    };
  }

  bool are_obeyed(const Tokens& prompt, const Tokens& written) const {
    Tokens text = prompt;
    text.insert(text.end(), written.begin(), written.end());
    return std::equal(prefix.begin(), prefix.end(), written.begin(), written.begin() + 2) &&
           std::count(written.begin(), written.end(), banned) == 0 &&
           !repeats(text, static_cast<std::size_t>(n), prompt.size() + prefix.size());
  }

  int banned, n;
  Tokens prefix;
};

}  // namespace

BOOST_AUTO_TEST_CASE(constraints_are_obeyed_by_random_models) {
  int broken_without = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Models m(seed);
    const Rules rules(seed);
    const Tokens prompt{1, 3};
    GenerateOptions options{.max_tokens = 6, .stop = {kEos}, .seed = seed, .hook = rules.hook(prompt.size())};
    const Ragged prompts = Ragged::of({prompt, prompt});
    for (const Tokens& text : generate(m.language, prompts, options)) BOOST_TEST(rules.are_obeyed(prompt, text));
    options.hook = {};
    for (const Tokens& text : generate(m.language, prompts, options))
      broken_without += text.size() < 2 || !rules.are_obeyed(prompt, text);
    const BeamOptions search{.bos = kBos, .eos = kEos, .max_length = 6, .n_best = 4, .hook = rules.hook(1)};
    for (const auto& found : beam_search(m.transformer, m.src, search)) {
      BOOST_TEST(!found.empty());
      for (const Hypothesis& h : found) BOOST_TEST(rules.are_obeyed({kBos}, h.tokens));
    }
  }
  BOOST_CHECK_GT(broken_without, 150);  // of 200
}

BOOST_AUTO_TEST_CASE(a_hook_that_changes_nothing_changes_no_bit) {
  const auto nothing = [](std::span<real>, std::span<const int>) {};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Models m(seed);
    const Ragged prompts = Ragged::of({{1, 3}, {2}, {4, 4, 4}});
    GenerateOptions options{.max_tokens = 20, .sampling = {.repetition_penalty = 1.2, .top_p = 0.9}, .seed = seed};
    const auto texts = generate(m.language, prompts, options);
    options.hook = nothing;
    BOOST_CHECK(generate(m.language, prompts, options) == texts);
    BeamOptions search{.bos = kBos, .eos = kEos, .max_length = 8, .n_best = 4};
    const auto plain = beam_search(m.transformer, m.src, search);
    search.hook = nothing;
    const auto hooked = beam_search(m.transformer, m.src, search);
    for (std::size_t s = 0; s < m.src.size(); ++s)
      for (std::size_t i = 0; i < 4; ++i) {
        BOOST_CHECK(plain[s][i].tokens == hooked[s][i].tokens);
        BOOST_CHECK_EQUAL(plain[s][i].score, hooked[s][i].score);
        BOOST_CHECK_EQUAL(plain[s][i].log_probability, hooked[s][i].log_probability);
      }
  }
}

BOOST_AUTO_TEST_CASE(a_hook_sees_the_whole_text_and_its_scores) {
  const Models m(3);
  std::map<Tokens, std::vector<real>> seen;
  const auto watch = [&](std::span<real> scores, std::span<const int> text) {
    seen[{text.begin(), text.end()}] = {scores.begin(), scores.end()};
  };
  const auto check_against = [&](const auto& last_row) {
    BOOST_CHECK_GT(seen.size(), 5);
    for (const auto& [text, scores] : seen) {
      const Inference inference;
      const Tensor whole = last_row(text);
      BOOST_CHECK_LT(small::largest_difference(whole.values().last(kWords), scores), 10 * test::kTolerance);
    }
    seen.clear();
  };
  generate(m.language, Ragged::of({{1, 3}, {2}}), {.max_tokens = 5, .hook = watch});
  check_against([&](const Tokens& text) { return m.language(Ragged::of({text})); });
  beam_search(m.transformer, m.src.pick({2}), {.bos = kBos, .eos = kEos, .max_length = 6, .hook = watch});
  const auto of_source = [&](const Tokens& text) { return m.transformer.logits(m.src.pick({2}), Ragged::of({text})); };
  check_against(of_source);
  const Inference inference;
  KeyValueCache cache = m.transformer.make_cache(1, 8);
  const Ragged source = m.src.pick({2});
  const StepModel steps = step_model(m.transformer, m.transformer.encode(source), source.offsets, cache);
  beam_search(steps, Ragged::of({{kBos, 2, 1}}), {.eos = kEos, .max_length = 5, .hook = watch});  // that has begun
  check_against(of_source);
}

// Targets without equal neighbours, and 3 only directly after 1; scores may also be raised, by an amount for each
// token.
BOOST_AUTO_TEST_CASE(a_constrained_beam_finds_the_best_of_the_targets_that_are_left) {
  constexpr int kFew = 4, kEnd = 2, kLength = 4;
  const auto targets = small::all_targets(kFew, kEnd, kLength);
  const auto is_allowed = [](int before, int token) { return token != before && (token != 3 || before == 1); };
  const std::vector<double> added{0.75, -0.5, 0.25, 1.5};
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    for (const bool adds : {false, true}) {
      const Models m(seed, kFew);
      const Ragged src = Ragged::of({{1, 2, 3}, {0}});
      const auto hook = [&](std::span<real> scores, std::span<const int> text) {
        for (int token = 0; token < kFew; ++token) {
          if (!is_allowed(text.back(), token)) ban_tokens(scores, {token});
          if (adds)
            scores[static_cast<std::size_t>(token)] += static_cast<real>(added[static_cast<std::size_t>(token)]);
        }
      };
      const auto found = beam_search(m.transformer, src,
                                     {.bos = kBos,
                                      .eos = kEnd,
                                      .max_length = kLength,
                                      .beam = static_cast<int>(targets.size()),
                                      .n_best = static_cast<int>(targets.size()),
                                      .length_penalty = 0.7,
                                      .hook = hook});
      for (std::size_t s = 0; s < src.size(); ++s) {
        Models alone(seed, kFew);
        alone.src = src;
        std::vector<std::pair<double, Tokens>> expected;
        for (const Tokens& target : targets) {
          bool is_legal = true;
          double sum = sum_of(log_probabilities(alone, s, target));
          for (std::size_t i = 0; i < target.size(); ++i) {
            is_legal = is_legal && is_allowed(i == 0 ? kBos : target[i - 1], target[i]);
            if (adds) sum += added[static_cast<std::size_t>(target[i])];
          }
          if (is_legal)
            expected.emplace_back(sum / std::pow((5.0 + static_cast<double>(target.size())) / 6, 0.7), target);
        }
        std::sort(expected.rbegin(), expected.rend());
        BOOST_REQUIRE_EQUAL(found[s].size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          BOOST_TEST(found[s][i].tokens == expected[i].second);
          BOOST_CHECK_SMALL(found[s][i].score - expected[i].first, 10 * test::kTolerance);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(log_probabilities_are_those_of_the_whole_text) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Models m(seed);
    const auto changes = [](std::span<real> scores, std::span<const int>) {
      ban_tokens(scores, {1});
      scores[2] += real{1.5};
    };
    std::vector<TextRequest> requests;
    for (const Tokens& prompt : {Tokens{1, 3}, Tokens{2}, Tokens{4, 4, 4}})
      requests.push_back({prompt, {.max_tokens = 8, .sampling = {.temperature = 2, .top_k = 4}, .hook = changes}});
    const auto texts = generate_each(m.language, requests);
    for (std::size_t t = 0; t < texts.size(); ++t) {
      const Inference inference;
      Tokens whole = requests[t].prompt;
      whole.insert(whole.end(), texts[t].tokens.begin(), texts[t].tokens.end());
      const Tensor log_p = log_softmax(m.language(Ragged::of({whole})));
      std::vector<double> expected;
      for (std::size_t i = requests[t].prompt.size(); i < whole.size(); ++i)
        expected.push_back(at(log_p, i - 1, whole[i]));
      BOOST_CHECK_LT(largest_difference(texts[t].log_probabilities, expected), 10 * test::kTolerance);
      BOOST_CHECK_SMALL(texts[t].log_probability() - sum_of(expected), 10 * test::kTolerance);
    }
    const auto found =
        beam_search(m.transformer, m.src, {.bos = kBos, .eos = kEos, .max_length = 8, .n_best = 4, .hook = changes});
    for (std::size_t s = 0; s < m.src.size(); ++s)
      for (const Hypothesis& h : found[s]) {
        const auto expected = log_probabilities(m, s, h.tokens);
        BOOST_CHECK_LT(largest_difference(h.token_log_probabilities, expected), 10 * test::kTolerance);
        BOOST_CHECK_SMALL(h.log_probability - sum_of(expected), 10 * test::kTolerance);
      }
  }
}

BOOST_AUTO_TEST_CASE(beams_tell_the_tokens_of_the_best_target) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const int beam : {1, 2, 4}) {
      const Models m(seed);
      std::vector<Tokens> told(m.src.size());
      const auto tell = [&](std::size_t s, int token) { told[s].push_back(token); };
      const BeamOptions options{.bos = kBos, .eos = kEos, .max_length = 9, .beam = beam};
      const auto found = beam_search(m.transformer, m.src, options, tell);
      for (std::size_t s = 0; s < m.src.size(); ++s) BOOST_TEST(told[s] == found[s][0].tokens);
      told.assign(m.src.size(), {});
      BOOST_CHECK(greedy_decode(m.transformer, m.src, options, tell) == told);
    }
}

// Targets that cannot end: before each step, what has been told is exactly what they have in common.
BOOST_AUTO_TEST_CASE(a_token_is_told_as_soon_as_all_targets_have_it) {
  std::size_t early = 0, open_at_the_end = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Models m(seed);
    const Inference inference;
    const Ragged src = m.src.pick({2});
    const Tensor memory = m.transformer.encode(src);
    KeyValueCache cache = m.transformer.make_cache(1, 9);
    std::vector<Tokens> open(1);
    Tokens told;
    StepModel steps = step_model(m.transformer, memory, src.offsets, cache);
    const auto check_told = [&] {
      std::size_t common = 1;  // the start
      const auto have_next = [&](const Tokens& t) { return common < t.size() && t[common] == open[0][common]; };
      while (std::ranges::all_of(open, have_next)) ++common;
      BOOST_TEST(told == Tokens(open[0].begin() + 1, open[0].begin() + static_cast<long>(common)));
    };
    steps.scores = [&, scores = steps.scores](const Ragged& unread) {
      for (std::size_t t = 0; t < open.size(); ++t) open[t].insert(open[t].end(), unread[t].begin(), unread[t].end());
      check_told();
      early = std::max(early, told.size());
      return scores(unread);
    };
    steps.select = [&, select = steps.select](std::span<const int> parents, Offsets sources) {
      std::vector<Tokens> chosen;
      for (const int parent : parents) chosen.push_back(open[static_cast<std::size_t>(parent)]);
      open = std::move(chosen);
      select(parents, sources);
    };
    beam_search(steps, Ragged::of({{kBos}}), {.eos = -1, .max_length = 9, .beam = 3},
                [&](std::size_t, int token) { told.push_back(token); });
    BOOST_CHECK_EQUAL(told.size(), 9);
    open_at_the_end += open.size();
  }
  BOOST_CHECK_EQUAL(open_at_the_end, 60);
  BOOST_CHECK_GT(early, 4);
}

// A hook that leaves nothing, or makes scores that are none.
BOOST_AUTO_TEST_CASE(hooks_that_go_wrong) {
  const Models m(1);
  const auto bans_after = [](std::size_t length) {
    return [=](std::span<real> scores, std::span<const int> text) {
      if (text.size() == length) keep_tokens(scores, {});
    };
  };
  const auto generates = [&](const ScoreHook& hook) {
    return [&, hook] { generate(m.language, Ragged::of({{1}, {1, 3}}), {.max_tokens = 3, .hook = hook}); };
  };
  const auto searches = [&](const ScoreHook& hook) {
    return [&, hook] { beam_search(m.transformer, m.src, {.bos = kBos, .eos = -1, .max_length = 4, .hook = hook}); };
  };
  test::check_error<ArgumentError>(generates(bans_after(2)),
                                   {"generate: the hook bans all tokens after 2 of prompt 1"});
  const auto gives = [](real score) {
    return [=](std::span<real> scores, std::span<const int>) { scores[2] = score; };
  };
  const real nan = std::numeric_limits<real>::quiet_NaN();
  test::check_error<NumericError>(generates(gives(nan)), {"generate: the hook gives token 2 the score nan"});
  test::check_error<NumericError>(searches(gives(kInfinity)), {"beam_search: the hook gives token 2 the score inf"});
  const BeamOptions dead{.bos = kBos, .eos = -1, .max_length = 4, .hook = bans_after(3)};
  for (const auto& found : beam_search(m.transformer, m.src, dead)) BOOST_TEST(found.empty());
  test::check_error<ArgumentError>([&] { greedy_decode(m.transformer, m.src, dead); },
                                   {"greedy_decode: the hook bans all continuations of source 0"});
  // One source is left without targets; the others are searched as if it were not there.
  const auto bans_three = [](std::span<real> scores, std::span<const int> text) {
    if (text.size() > 1 && text[1] == 3) keep_tokens(scores, {});
  };
  const BeamOptions some{.bos = kBos, .eos = kEos, .max_length = 6, .beam = 1, .hook = bans_three};
  const BeamOptions all{.bos = kBos, .eos = kEos, .max_length = 6, .beam = 1};
  int dropped = 0, kept = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Models random(seed);
    const auto found = beam_search(random.transformer, random.src, some);
    const auto expected = beam_search(random.transformer, random.src, all);
    for (std::size_t s = 0; s < random.src.size(); ++s) {
      const bool is_dead = expected[s][0].tokens[0] == 3 && expected[s][0].tokens.size() > 1;
      (is_dead ? dropped : kept) += 1;
      BOOST_CHECK_EQUAL(found[s].empty(), is_dead);
      if (!is_dead) BOOST_TEST(found[s][0].tokens == expected[s][0].tokens);
    }
  }
  BOOST_CHECK(dropped > 2 && kept > 20);
}

BOOST_AUTO_TEST_CASE(constraints_change_what_they_say) {
  const std::vector<real> scores{1, 2, 3, 4, 5};
  const auto changed = [&](const auto& change) {
    std::vector<real> copy = scores;
    change(copy);
    return copy;
  };
  const real none = -kInfinity;
  BOOST_TEST(changed([](auto& s) { ban_tokens(s, {1, 4}); }) == (std::vector<real>{1, none, 3, 4, none}));
  BOOST_TEST(changed([](auto& s) { keep_tokens(s, {4, 1, 1}); }) == (std::vector<real>{none, 2, none, none, 5}));
  const auto ban = [&](Tokens text, int n) { return changed([&](auto& s) { ban_repeated_ngrams(s, text, n); }); };
  BOOST_TEST(ban({2, 0, 1, 2, 0}, 3) == (std::vector<real>{1, none, 3, 4, 5}));
  BOOST_TEST(ban({2, 0, 1, 2, 0, 3, 0}, 2) == (std::vector<real>{1, none, 3, none, 5}));
  BOOST_TEST(ban({2, 0}, 1) == (std::vector<real>{none, 2, none, 4, 5}));
  BOOST_TEST(ban({2, 0}, 3) == scores);
  BOOST_TEST(ban({2}, 4) == scores);
  BOOST_TEST(ban({}, 1) == scores);
  for (const int token : {-1, 5}) {
    const std::string message = "constraint: token " + std::to_string(token) + " has no score; there are 5";
    test::check_error<IndexError>([&] { changed([&](auto& s) { ban_tokens(s, {token}); }); }, {message});
    test::check_error<IndexError>([&] { changed([&](auto& s) { keep_tokens(s, {0, token}); }); }, {message});
    test::check_error<IndexError>([&] { ban({token}, 1); }, {message});
  }
  test::check_error<ArgumentError>([&] { ban({1}, 0); }, {"constraint: n-grams of 0 tokens"});
}
