// The key-value cache against full recomputation, and generation with the cache against generation without.
// needs: precision: double; full: single
#include "models/small_transformer.h"
#include "support/precision.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/decoding/sampling.h>

#include <limits>
#include <numeric>
#include <string>

using namespace seppo;
using small::kVocabulary, small::random_batch;

namespace {

constexpr int kWindow = 12;

struct LanguageFixture {
  explicit LanguageFixture(Positions positions = Positions::learned)
      : parameters(5),
        model(parameters.root(), {.vocabulary = kVocabulary,
                                  .layer = {.d_model = 8, .n_heads = 2, .d_ff = 16, .norm = Norm::pre},
                                  .n_layers = 2,
                                  .positions = positions,
                                  .max_length = kWindow}) {
    tape().clear();
    for (real& v : parameters.edit()) v *= 3;  // makes the choices differ between texts
  }
  Parameters parameters;
  LanguageModel model;
};

// The result that generate() promises, computed for one text and without a cache.
std::vector<int> naive_text(const LanguageModel& model, std::span<const int> prompt, std::size_t index,
                            const GenerateOptions& options) {
  const UseMode eval(Mode::eval);
  std::vector<int> tokens(prompt.begin(), prompt.end()), drawn;
  RandomStream random(options.seed, Purpose::sampling, index);
  std::size_t begin = 0;  // of the window
  for (int i = 0; i < options.max_tokens; ++i) {
    const TapeMark mark;
    if (tokens.size() - begin > kWindow) begin = tokens.size() - kWindow + static_cast<std::size_t>(options.stride) - 1;
    Ragged window;
    window.add(std::span(tokens).subspan(begin));
    const Tensor logits = model(window);
    drawn.push_back(sample_token(logits.values().last(kVocabulary), options.sampling, random, tokens));
    tokens.push_back(drawn.back());
    if (std::count(options.stop.begin(), options.stop.end(), drawn.back()) > 0) break;
  }
  return drawn;
}

// The last `count` rows of a sequence's scores equal those from a batch.
void check_rows(std::span<const real> whole, std::span<const real> part, const char* what) {
  BOOST_REQUIRE_GE(whole.size(), part.size());
  const double difference = small::largest_difference(whole.last(part.size()), part);
  BOOST_CHECK_MESSAGE(difference < test::kTolerance, what << ": " << difference);
}

std::span<const real> rows_of(const Tensor& scores, const Ragged& batch, std::size_t s) {
  return scores.values().subspan(static_cast<std::size_t>(batch.offsets[s]) * kVocabulary,
                                 batch[s].size() * kVocabulary);
}

}  // namespace

// Any number of tokens at a time, in any mixture, also after sequences are reordered, duplicated, dropped or restarted.
BOOST_AUTO_TEST_CASE(a_cached_language_model_equals_the_whole_one) {
  for (const Positions positions : {Positions::learned, Positions::sinusoid, Positions::none}) {
    const LanguageFixture f(positions);
    const UseMode eval(Mode::eval);
    KeyValueCache cache = f.model.make_cache(3);
    std::vector<std::vector<int>> texts(3);
    RandomStream random(7, Purpose::test);
    const std::vector<std::vector<int>> lengths{{3, 1, 5}, {1, 1, 1}, {1, 1, 1}, {2, 0, 1}, {1, 1, 1}, {1, 4, 2}};
    for (std::size_t step = 0; step < lengths.size(); ++step) {
      Ragged next, whole;
      for (std::size_t s = 0; s < texts.size(); ++s) {
        for (int i = 0; i < lengths[step][s]; ++i) texts[s].push_back(static_cast<int>(random.below(kVocabulary)));
        next.add(std::span(texts[s]).last(static_cast<std::size_t>(lengths[step][s])));
        whole.add(texts[s]);
      }
      const Tensor cached = f.model(next, &cache), expected = f.model(whole);
      for (std::size_t s = 0; s < texts.size(); ++s)
        check_rows(rows_of(expected, whole, s), rows_of(cached, next, s), "language model");
      if (step == 1) {
        cache.select(std::vector<int>{2, 0, 0});
        texts = {texts[2], texts[0], texts[0]};
      } else if (step == 3) {
        cache.restart(1);
        texts[1].clear();
      }
    }
    BOOST_CHECK_EQUAL(cache.length(1), 5);
  }
}

BOOST_AUTO_TEST_CASE(a_cached_decoder_equals_the_whole_one) {
  for (const Positions positions :
       {Positions::sinusoid, Positions::learned, Positions::rotary, Positions::rotary_halves, Positions::alibi}) {
    TransformerConfig config = small::config(positions == Positions::learned ? Norm::post : Norm::pre);
    config.positions = positions;
    config.layer.n_kv_heads = positions == Positions::sinusoid ? 2 : 1;
    const small::Fixture f(config);
    const UseMode eval(Mode::eval);
    const Tensor memory = f.model.encode(f.src);
    KeyValueCache cache = f.model.make_cache(3, 16);
    // Targets and their sources: first one target per source, then several, as in a beam.
    std::vector<std::vector<int>> targets(3);
    std::vector<int> source_rows{0, 1, 2, 3};
    RandomStream random(7, Purpose::test);
    for (int step = 0; step < 6; ++step) {
      Ragged next;
      for (auto& target : targets) {
        const std::size_t count = step == 0 ? 2 + target.size() : 1;
        for (std::size_t i = 0; i < count; ++i) target.push_back(static_cast<int>(random.below(kVocabulary)));
        next.add(std::span(target).last(count));
      }
      const Tensor cached = f.model.decode(next, memory, f.src.offsets, &cache);
      for (std::size_t s = 0; s < 3; ++s)
        for (int row = source_rows[s]; row < source_rows[s + 1]; ++row) {
          Ragged src, tgt;
          src.add(f.src[s]);
          tgt.add(targets[static_cast<std::size_t>(row)]);
          check_rows(f.model.logits(src, tgt).values(), rows_of(cached, next, static_cast<std::size_t>(row)),
                     "Transformer");
        }
      if (step == 2) {  // the last source gets three targets, the middle one none
        cache.select(std::vector<int>{0, 2, 2, 2}, source_rows = {0, 1, 1, 4});
        targets = {targets[0], targets[2], targets[2], targets[2]};
      }
    }
    cache.select(std::vector<int>{0, 1});  // does not say which sources the rows belong to
    BOOST_CHECK_THROW(f.model.decode(random_batch({1, 1}, 1), memory, f.src.offsets, &cache), ShapeError);
    KeyValueCache same_number = f.model.make_cache(3, 16);
    f.model.decode(random_batch({1, 1, 1}, 1), memory, f.src.offsets, &same_number);
    same_number.select(std::vector<int>{1, 0, 2});  // nor, with as many rows
    BOOST_CHECK_THROW(f.model.decode(random_batch({1, 1, 1}, 1), memory, f.src.offsets, &same_number), ShapeError);
  }
}

BOOST_AUTO_TEST_CASE(generation_equals_that_without_a_cache) {
  const LanguageFixture f;
  const Ragged prompts = random_batch({3, 1, kWindow, kWindow + 5, kWindow - 1}, 9);
  for (const SamplingOptions& sampling :
       std::vector<SamplingOptions>{{.temperature = 0},
                                    {},
                                    {.repetition_penalty = 3, .temperature = 0},
                                    {.repetition_penalty = 1.5, .temperature = 2, .top_k = 6, .min_p = 0.1}})
    for (const int stride : {1, 4, kWindow}) {
      const GenerateOptions options{.max_tokens = 2 * kWindow, .sampling = sampling, .stride = stride, .seed = 3};
      const auto texts = generate(f.model, prompts, options);
      for (std::size_t p = 0; p < prompts.size(); ++p)
        BOOST_TEST(texts[p] == naive_text(f.model, prompts[p], p, options), "prompt " << p << ", stride " << stride);
    }
}

BOOST_AUTO_TEST_CASE(texts_end_with_the_stop_token) {
  const LanguageFixture f;
  const Ragged prompts = random_batch({3, 1, 5, 2}, 9);
  const GenerateOptions options{.max_tokens = 3 * kWindow, .stop = {4, 9}, .seed = 2};
  std::vector<std::vector<int>> told(prompts.size());
  const auto texts = generate(f.model, prompts, options, [&](std::size_t p, int token) { told[p].push_back(token); });
  BOOST_CHECK(told == texts);
  bool any_stopped = false;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    BOOST_TEST(texts[p] == naive_text(f.model, prompts[p], p, options));
    for (const int stop : {4, 9})
      BOOST_CHECK(std::count(texts[p].begin(), texts[p].end(), stop) == (texts[p].back() == stop));
    any_stopped = any_stopped || texts[p].size() < 3 * kWindow;
  }
  BOOST_CHECK(any_stopped);
  BOOST_CHECK(generate(f.model, Ragged{}, options).empty());
  BOOST_CHECK(generate(f.model, prompts, {.max_tokens = 0}).at(3).empty());
}

// Texts leave the batch at different times: whose window is full then has another place in it than its prompt.
BOOST_AUTO_TEST_CASE(windows_go_on_behind_texts_that_have_ended) {
  const LanguageFixture f;
  const Ragged prompts = random_batch({kWindow - 2, 2, 5, kWindow, 3}, 9);
  int ended = 0;
  for (int stop = 0; stop < kVocabulary; ++stop) {
    const GenerateOptions options{.max_tokens = 2 * kWindow, .stop = {stop}, .stride = 5, .seed = 4};
    const auto texts = generate(f.model, prompts, options);
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      BOOST_TEST(texts[p] == naive_text(f.model, prompts[p], p, options), "stop " << stop << ", prompt " << p);
      if (p + 1 < prompts.size() && texts[p].size() < texts[p + 1].size()) ++ended;
    }
  }
  BOOST_CHECK_GT(ended, 3);
}

BOOST_AUTO_TEST_CASE(texts_do_not_depend_on_threads) {
  const LanguageFixture f;
  const Ragged prompts = random_batch({3, 1, kWindow, 2}, 9);
  std::vector<std::vector<std::vector<int>>> texts;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    texts.push_back(generate(f.model, prompts, {.max_tokens = 20, .seed = 1}));
  }
  set_num_threads(1);
  for (std::size_t p = 0; p < prompts.size(); ++p)  // and independent of the other prompts
    BOOST_TEST(texts[0][p] == naive_text(f.model, prompts[p], p, {.max_tokens = 20, .seed = 1}));
  BOOST_CHECK(texts[0] == texts[1] && texts[0] == texts[2]);
  BOOST_CHECK(texts[0] != generate(f.model, prompts, {.max_tokens = 20, .seed = 2}));
}

BOOST_AUTO_TEST_CASE(generation_leaves_the_tape_as_it_was_and_checks_its_arguments) {
  const LanguageFixture f;
  const std::size_t nodes = tape().size();
  Ragged prompts = random_batch({3, 1}, 9);
  generate(f.model, prompts);
  BOOST_CHECK(tape().size() == nodes && tape().mode == Mode::train);
  BOOST_CHECK_THROW(generate(f.model, prompts, {.max_tokens = -1}), ArgumentError);
  BOOST_CHECK_THROW(generate(f.model, prompts, {.stride = 0}), ArgumentError);
  BOOST_CHECK_THROW(generate(f.model, prompts, {.stride = kWindow + 1}), ArgumentError);
  BOOST_CHECK_THROW(generate(f.model, prompts, {.sampling = {.top_p = 0}}), ArgumentError);
  BOOST_CHECK_THROW(generate(f.model, prompts, {.sampling = {.min_p = 2}}), ArgumentError);
  prompts.add({});
  BOOST_CHECK_THROW(generate(f.model, prompts), ShapeError);
  for (const int id : {-1, kVocabulary, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    Ragged unknown;
    unknown.add(std::vector<int>{0, id});
    BOOST_CHECK_EXCEPTION(generate(f.model, unknown), IndexError, [=](const IndexError& e) {
      return std::string(e.what()).find(std::to_string(id)) != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(a_cache_is_for_evaluation_and_has_its_limits) {
  const LanguageFixture f;
  KeyValueCache cache = f.model.make_cache(1);
  const Ragged one = random_batch({1}, 1), two = random_batch({1, 1}, 1), full = random_batch({kWindow}, 1);
  BOOST_CHECK_THROW(f.model(one, &cache), StateError);  // gradients would be wrong
  const UseMode eval(Mode::eval);
  BOOST_CHECK_THROW(f.model(two, &cache), ShapeError);
  f.model(full, &cache);
  BOOST_CHECK_THROW(f.model(one, &cache), StateError);
  cache.restart(0);
  f.model(one, &cache);
  KeyValueCache pair = f.model.make_cache(2);  // of which one is full
  pair.extend({0, 0, kWindow});
  BOOST_CHECK_THROW(pair.extend({0, 1, 2}), StateError);
  BOOST_CHECK_THROW(cache.restart(1), IndexError);
  BOOST_CHECK_THROW(cache.length(1), IndexError);
  BOOST_CHECK_THROW(cache.select(std::vector<int>{0, 1}), IndexError);
}

BOOST_AUTO_TEST_CASE(scores_that_are_not_finite_are_refused) {
  const LanguageFixture f;
  f.parameters.find("layers.norm.weight")->tensor.data()[0] = std::numeric_limits<real>::quiet_NaN();
  for (const double temperature : {0.0, 1.0})
    BOOST_CHECK_THROW(generate(f.model, random_batch({3}, 9), {.sampling = {.temperature = temperature}}),
                      NumericError);
}
