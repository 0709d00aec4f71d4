// generate() and beam_search() of any model: a T5 with relative position bias and a recurrent network, written here
// with installed headers only, and each of the library's models in the other's place.
// needs: precision: double; full: single
#include "models/all_targets.h"
#include "models/small_transformer.h"
#include "support/errors.h"
#include "support/precision.h"

#include <seppo/models/decoding/beam.h>
#include <seppo/models/decoding/generate.h>

using namespace seppo;

namespace {

using small::Tokens;

constexpr int kWords = 4, kBos = 1, kEos = 2, kHeads = 2;

// An encoder-decoder whose attention knows positions only by a bias for each distance, as T5 (Raffel et al. 2020).
struct T5 {
  explicit T5(const Scope& s)
      : embedding(s / "embedding", kWords, 8, init_normal(1)),
        encoder_bias(s.parameter("encoder_bias", {2 * kFarthest + 1, kHeads}, init_normal(1))),
        decoder_bias(s.parameter("decoder_bias", {2 * kFarthest + 1, kHeads}, init_normal(1))),
        encoder(s / "encoder", 1, kLayer),
        decoder(s / "decoder", 2, kLayer),
        output(s / "output", 8, kWords) {}

  // [1, heads, queries, keys]: the last query is at the last key.
  static Tensor bias(const Tensor& table, int queries, int keys) {
    Tokens distances;
    for (int q = keys - queries; q < keys; ++q)
      for (int k = 0; k < keys; ++k) distances.push_back(std::clamp(k - q, -kFarthest, kFarthest) + kFarthest);
    return reshape(transpose(index_select(table, 0, distances)), {1, kHeads, queries, keys});
  }

  Tensor encode(const Ragged& src) const {
    int longest = 0;
    for (std::size_t s = 0; s < src.size(); ++s) longest = std::max(longest, static_cast<int>(src[s].size()));
    return encoder(embedding(src.tokens), src.offsets, {.bias = bias(encoder_bias, longest, longest)});
  }

  // All texts have equally many new tokens, and equally many in the cache.
  Tensor decode(const Ragged& tgt, const Tensor& memory, Offsets memory_offsets, KeyValueCache* cache = nullptr) const {
    const auto first = cache ? cache->extend(tgt.offsets) : std::span<const int>();
    const int fresh = tgt.offsets[1], all = fresh + (cache ? first[0] : 0);
    return output(decoder(embedding(tgt.tokens), tgt.offsets, memory, memory_offsets,
                          {.cache = cache, .bias = bias(decoder_bias, fresh, all)}));
  }

  static constexpr int kFarthest = 3;
  static constexpr LayerConfig kLayer{.d_model = 8, .n_heads = kHeads, .d_ff = 12, .norm = Norm::pre};
  Embedding embedding;
  Tensor encoder_bias, decoder_bias;
  Encoder encoder;
  Decoder decoder;
  Linear output;
};

// h = tanh(W [h, x]), scores = V h. A text's state is in memory of its own.
struct Recurrent {
  explicit Recurrent(const Scope& s)
      : embedding(s / "embedding", kWords, 6, init_normal(1)),
        next(s / "next", 12, 6),
        output(s / "output", 6, kWords) {}

  Tensor step(const Tensor& state, const Tensor& x) const { return tanh(next(concat({state, x}, 1))); }

  Tensor whole(const Tokens& text) const {  // scores after the last token, [1, words]
    Tensor state = zeros({1, 6});
    for (const int token : text) state = step(state, embedding({token}));
    return output(state);
  }

  Embedding embedding;
  Linear next, output;
};

// A StepModel of a recurrent network.
struct RecurrentSteps {
  RecurrentSteps(const Recurrent& model, std::size_t texts) : model(model), states(texts, std::vector<real>(6)) {}

  Tensor scores(const Ragged& unread) {
    std::vector<real> all;
    for (std::size_t t = 0; t < unread.size(); ++t) {
      Tensor state = tensor({1, 6}, states[t]);
      for (const int token : unread[t]) state = model.step(state, model.embedding({token}));
      states[t].assign(state.values().begin(), state.values().end());
      all.insert(all.end(), states[t].begin(), states[t].end());
    }
    return model.output(tensor({static_cast<int>(unread.size()), 6}, all));
  }
  void select(std::span<const int> parents) {
    std::vector<std::vector<real>> chosen;
    for (const int parent : parents) chosen.push_back(states[static_cast<std::size_t>(parent)]);
    states = std::move(chosen);
  }
  StepModel steps() {
    return {.scores = [this](const Ragged& unread) { return scores(unread); },
            .select = [this](std::span<const int> parents, Offsets) { select(parents); }};
  }

  const Recurrent& model;
  std::vector<std::vector<real>> states;
};

// log p of a text after its start, by `scores_of(text)`, which gives the scores of the next token.
template <class ScoresOf>
double log_probability(const Tokens& start, const Tokens& text, const ScoresOf& scores_of) {
  const Inference inference;
  Tokens so_far = start;
  double sum = 0;
  for (const int token : text) {
    const Tensor scores = log_softmax(scores_of(so_far));  // the last row counts
    sum += static_cast<double>(scores.values().last(scores.cols())[static_cast<std::size_t>(token)]);
    so_far.push_back(token);
  }
  return sum;
}

// `found`, of a beam wide enough for everything, has all texts of at most four tokens, the likeliest first.
template <class ScoresOf>
void check_exhaustive(const std::vector<Hypothesis>& found, const Tokens& start, const ScoresOf& scores_of) {
  std::vector<std::pair<double, Tokens>> expected;
  for (const Tokens& text : small::all_targets(kWords, kEos, 4))
    expected.emplace_back(log_probability(start, text, scores_of), text);
  std::sort(expected.rbegin(), expected.rend());
  BOOST_REQUIRE_EQUAL(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST(found[i].tokens == expected[i].second);
    BOOST_CHECK_SMALL(found[i].score - expected[i].first, 10 * test::kTolerance);
  }
}

// The likeliest tokens, one after another.
template <class ScoresOf>
Tokens greedy(Tokens text, std::size_t count, const ScoresOf& scores_of) {
  const Inference inference;
  const std::size_t start = text.size();
  while (text.size() < start + count && (text.size() == start || text.back() != kEos)) {
    const auto scores = scores_of(text).values().last(kWords);
    text.push_back(static_cast<int>(std::ranges::max_element(scores) - scores.begin()));
  }
  return {text.begin() + static_cast<long>(start), text.end()};
}

const BeamOptions kEverything{.eos = kEos, .max_length = 4, .beam = 130, .n_best = 130, .length_penalty = 0};
const GenerateOptions kGreedy{.max_tokens = 6, .sampling = {.temperature = 0}, .stop = {kEos}};

struct Fixture {
  explicit Fixture(std::uint64_t seed) : parameters(seed) {}

  void enlarge() {
    for (real& v : parameters.edit()) v *= 2;
  }
  Ragged one(std::size_t s) const { return src.pick({static_cast<int>(s)}); }

  Parameters parameters;
  Ragged src = Ragged::of({{1, 2, 3}, {0}, {3, 3, 0, 1, 2}});
  Ragged starts = Ragged::of({{kBos}, {kBos}, {kBos}});
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_t5_is_searched_and_sampled) {
  std::size_t lengths = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Fixture f(seed);
    const T5 t5(f.parameters.root());
    f.enlarge();
    const Inference inference;
    const Tensor memory = t5.encode(f.src);
    const auto with_steps = [&](const auto& use) {
      KeyValueCache cache(2, f.src.size(), 12, 8);
      return use(
          StepModel{.scores =
                        [&](const Ragged& unread) {
                          return last_rows(t5.decode(unread, memory, f.src.offsets, &cache), unread.offsets);
                        },
                    .select = [&](std::span<const int> parents, Offsets sources) { cache.select(parents, sources); }});
    };
    const auto found = with_steps([&](const StepModel& steps) { return beam_search(steps, f.starts, kEverything); });
    const auto texts = with_steps([&](const StepModel& steps) { return generate(steps, f.starts, kGreedy); });
    for (std::size_t s = 0; s < f.src.size(); ++s) {
      const auto scores_of = [&](const Tokens& text) {
        const Ragged src = f.one(s);
        return t5.decode(Ragged::of({text}), t5.encode(src), src.offsets);
      };
      check_exhaustive(found[s], {kBos}, scores_of);
      BOOST_TEST(texts[s] == greedy({kBos}, 6, scores_of));
      lengths += texts[s].size();
    }
  }
  BOOST_CHECK(lengths > 30 && lengths < 100);  // some end early, and leave the batch
}

BOOST_AUTO_TEST_CASE(a_recurrent_network_is_searched_and_sampled) {
  const Ragged starts = Ragged::of({{3}, {0, 1, 1}, {2, 0}});
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Fixture f(seed);
    const Recurrent model(f.parameters.root());
    f.enlarge();
    const Inference inference;
    RecurrentSteps searched(model, starts.size()), sampled(model, starts.size());
    const auto found = beam_search(searched.steps(), starts, kEverything);
    const auto texts = generate(sampled.steps(), starts, kGreedy);
    for (std::size_t s = 0; s < starts.size(); ++s) {
      const Tokens start(starts[s].begin(), starts[s].end());
      const auto scores_of = [&](const Tokens& text) { return model.whole(text); };
      check_exhaustive(found[s], start, scores_of);
      BOOST_TEST(texts[s] == greedy(start, 6, scores_of));
    }
  }
}

BOOST_AUTO_TEST_CASE(beams_of_a_language_model_continue_prompts) {
  const Ragged prompts = Ragged::of({{3}, {0, 1, 1}, {2, 0}});
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Fixture f(seed);
    const LanguageModel model(
        f.parameters.root(),
        {.vocabulary = kWords, .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12}, .n_layers = 2, .max_length = 6});
    f.enlarge();
    const Inference inference;
    KeyValueCache cache = model.make_cache(prompts.size());
    const auto found = beam_search(step_model(model, cache), prompts, kEverything);
    for (std::size_t s = 0; s < prompts.size(); ++s)
      check_exhaustive(found[s], {prompts[s].begin(), prompts[s].end()},
                       [&](const Tokens& text) { return model(Ragged::of({text})); });
    KeyValueCache other = model.make_cache(1);
    test::check_error<ArgumentError>(
        [&] {
          const Inference again;
          beam_search(step_model(model, other), Ragged::of({{0, 1, 2}}), {.eos = kEos, .max_length = 5});
        },
        {"beam_search: start 0 of 3 tokens, and max_length 5, are too long for the model's window 6"});
  }
}

BOOST_AUTO_TEST_CASE(targets_of_a_transformer_are_sampled) {
  const auto options = [](double temperature) {
    return GenerateOptions{.max_tokens = 6, .sampling = {.temperature = temperature}, .stop = {kEos}, .seed = 4};
  };
  std::size_t different = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Fixture f(seed);
    const Transformer model(f.parameters.root(), {.src_vocabulary = kWords,
                                                  .tgt_vocabulary = kWords,
                                                  .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12},
                                                  .enc_layers = 1,
                                                  .dec_layers = 2,
                                                  .max_length = 12});
    f.enlarge();
    const Inference inference;
    const Tensor memory = model.encode(f.src);
    const auto sample = [&](double temperature) {
      KeyValueCache cache = model.make_cache(f.src.size(), 6);
      return generate(step_model(model, memory, f.src.offsets, cache), f.starts, options(temperature));
    };
    const auto best = sample(0), sampled = sample(1);
    BOOST_TEST(best == greedy_decode(model, f.src, {.bos = kBos, .eos = kEos, .max_length = 6}));
    for (std::size_t s = 0; s < f.src.size(); ++s) {
      RandomStream random(4, Purpose::sampling, s);
      Tokens text{kBos};
      while (text.size() < 7 && (text.size() == 1 || text.back() != kEos)) {
        const Tensor scores = model.logits(f.one(s), Ragged::of({text}));
        text.push_back(sample_token(scores.values().last(kWords), {}, random, text));
      }
      text.erase(text.begin());
      BOOST_TEST(sampled[s] == text);
      different += sampled[s] != best[s];
    }
  }
  BOOST_CHECK_GT(different, 5);
}

// Each of many requests in one batch has the text that it has alone, whatever its own options are.
BOOST_AUTO_TEST_CASE(requests_in_one_batch_are_answered_as_alone) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Fixture f(seed);
    const LanguageModel model(f.parameters.root(), {.vocabulary = small::kVocabulary,
                                                    .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12},
                                                    .n_layers = 2,
                                                    .max_length = 8});
    f.enlarge();
    RandomStream random(seed, Purpose::test);
    std::vector<TextRequest> requests;
    for (int i = 0; i < 20; ++i) {
      Tokens prompt(1 + random.below(12));
      for (int& token : prompt) token = static_cast<int>(random.below(small::kVocabulary));
      const double temperature = 0.5 * random.below(3);
      requests.push_back({prompt,
                          {.max_tokens = static_cast<int>(random.below(15)),
                           .sampling = {.temperature = temperature, .top_k = static_cast<int>(random.below(4))},
                           .stop = {static_cast<int>(random.below(small::kVocabulary))},
                           .stride = 1 + static_cast<int>(random.below(8)),
                           .seed = random.next()}});
      if (random.below(2) == 0)
        requests.back().options.hook = [banned = random.below(small::kVocabulary)](
                                           std::span<real> scores, std::span<const int>) { scores[banned] -= 3; };
    }
    std::vector<Tokens> told(requests.size());
    const auto together = generate_each(model, requests, [&](std::size_t r, int token) { told[r].push_back(token); });
    for (std::size_t r = 0; r < requests.size(); ++r) {
      const auto alone = generate(model, Ragged::of({requests[r].prompt}), requests[r].options)[0];
      BOOST_TEST(together[r].tokens == alone, "request " << r);
      BOOST_TEST(told[r] == alone);
      BOOST_CHECK_EQUAL(together[r].log_probabilities.size(), alone.size());
    }
  }
  Fixture f(1);
  const LanguageModel model(f.parameters.root(), {.vocabulary = 4, .layer = {.d_model = 8, .n_heads = 2}});
  BOOST_CHECK(generate_each(model, std::vector<TextRequest>{}).empty());
  test::check_error<ShapeError>(
      [&] {
        generate_each(model, std::vector<TextRequest>{{Tokens{1}}, {Tokens{}}});
      },
      {"generate: prompt 1 is empty"});
  test::check_error<ArgumentError>(
      [&] {
        generate_each(model, std::vector<TextRequest>{{Tokens{1}, {.stride = 0}}});
      },
      {"generate: stride 0 is not in 1..256, the model's max_length"});
}

BOOST_AUTO_TEST_CASE(a_step_model_is_checked) {
  const auto gives = [](const Shape& shape) { return [=](const Ragged&) { return zeros(shape); }; };
  const auto select = [](std::span<const int>, Offsets) {};
  const StepModel good{.scores = gives({2, 5}), .select = select};
  const auto generating = [](StepModel steps, Mode mode = Mode::eval) {
    return [=] {
      const UseMode use(mode);
      generate(steps, Ragged::of({{1}, {2, 3}}), {.max_tokens = 2});
    };
  };
  const auto searching = [](StepModel steps, Ragged starts = Ragged::of({{1}, {2, 3}}), int max_length = 2) {
    return [=] {
      const Inference inference;
      beam_search(steps, starts, {.max_length = max_length});
    };
  };
  test::check_error<ArgumentError>(generating({.scores = good.scores}),
                                   {"generate: the StepModel lacks scores or select"});
  test::check_error<ArgumentError>(searching({.select = select}),
                                   {"beam_search: the StepModel lacks scores or select"});
  test::check_error<StateError>(generating(good, Mode::train),
                                {"generate: Mode::train; begin with `const Inference inference;`"});
  StepModel window = good;
  window.window = 4;
  test::check_error<ArgumentError>(generating(window), {"generate: the StepModel has a window, but no restart"});
  window.window = -1;
  test::check_error<ArgumentError>(searching(window), {"beam_search: the StepModel's window -1 is negative"});
  StepModel three = good;
  three.scores = gives({3, 5});
  test::check_error<ShapeError>(generating(three), {"generate: scores [3,5] are not [texts, vocabulary] for 2 texts"});
  three.scores = gives({2});
  test::check_error<ShapeError>(searching(three), {"beam_search: scores [2] are not [texts, vocabulary] for 2 texts"});
  test::check_error<ShapeError>(searching(good, Ragged::of({{1}, {}})), {"beam_search: start 1 is empty"});
  test::check_error<ArgumentError>(searching(good, Ragged::of({{1}}), 0),
                                   {"beam_search: max_length 0 is not positive"});
}

BOOST_AUTO_TEST_CASE(the_last_rows_of_sequences) {
  const Tensor x = tensor({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor last = last_rows(x, {0, 3, 4});
  BOOST_TEST(small::copy_of(last) == (std::vector<real>{4, 5, 6, 7}));
  BOOST_TEST(small::copy_of(last_rows(x, {0, 1, 2, 3, 4})) == small::copy_of(x));
  const auto of = [](Tokens offsets) { return [=] { last_rows(zeros({4, 2}), offsets); }; };
  test::check_error<ShapeError>(of({0, 3}),
                                {"last_rows: x [4,2] is not [rows, n] with offsets that end with its rows"});
  test::check_error<ShapeError>(of({0, 4, 4}), {"last_rows: sequence 1 has no rows"});
}
