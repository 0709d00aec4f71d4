// The exact error messages of models, decoding and optimisers, and the boundary values that are still accepted.
#include "small_transformer.h"

#include <seppo/models/decoding/beam.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/decoding/sampling.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/ema.h>
#include <seppo/nn/optim/parameter_groups.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/trainer.h>

#include <functional>
#include <limits>
#include <string>

using namespace seppo;

namespace {

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void check_refusal(const std::function<void()>& f, const std::string& expected) {
  BOOST_CHECK_EQUAL(refusal(f), expected);
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

BOOST_AUTO_TEST_CASE(beams) {
  const small::Fixture f;
  const auto search = [&](const BeamOptions& changed) {
    return [&, changed] {
      BeamOptions o = changed;
      o.bos = 1;
      o.eos = 2;
      beam_search(f.model, f.src, o);
    };
  };
  check_refusal(search({.max_length = 4, .beam = 0}), "beam_search: beam 0 is not positive");
  check_refusal(search({.max_length = 4, .beam = -3}), "beam_search: beam -3 is not positive");
  check_refusal(search({.max_length = 4, .beam = 2, .n_best = 3}), "beam_search: n_best 3 is not in 1..2, the beam");
  check_refusal(search({.max_length = 4, .beam = 2, .n_best = 0}), "beam_search: n_best 0 is not in 1..2, the beam");
  check_refusal(search({.max_length = 4, .beam = 1, .length_penalty = -0.5}),
                "beam_search: length penalty -0.5 is negative or not finite");
  check_refusal(search({.max_length = 4, .beam = 1, .length_penalty = kInfinite}),
                "beam_search: length penalty inf is negative or not finite");
  check_refusal(search({.max_length = 17, .beam = 1}), "decode: max_length 17 is not in 1..16, the model's own");
  check_refusal(search({.max_length = 0, .beam = 1}), "decode: max_length 0 is not in 1..16, the model's own");
  check_refusal(search({.max_length = 16, .beam = 2, .n_best = 2, .length_penalty = 0}), "");
  check_refusal(search({.max_length = 1, .beam = 1}), "");
}

BOOST_AUTO_TEST_CASE(sampling) {
  const std::vector<real> scores{1, 2, 0, -1};
  const auto draw = [&](const SamplingOptions& o, std::vector<int> text = {0, 3}) {
    return [&, o, text] {
      RandomStream random(1, Purpose::test);
      const int token = sample_token(scores, o, random, text);
      BOOST_CHECK(token >= 0 && token < 4);
    };
  };
  for (const auto& [options, expected] : std::vector<std::pair<SamplingOptions, std::string>>{
           {{.temperature = -1}, "sampling: temperature -1 is negative or not finite"},
           {{.temperature = kInfinite}, "sampling: temperature inf is negative or not finite"},
           {{.top_k = -2}, "sampling: top_k -2 is negative"},
           {{.top_p = 0}, "sampling: top_p 0 is not in (0, 1]"},
           {{.top_p = 1.5}, "sampling: top_p 1.5 is not in (0, 1]"},
           {{.min_p = -0.5}, "sampling: min_p -0.5 is not in [0, 1]"},
           {{.min_p = 1.25}, "sampling: min_p 1.25 is not in [0, 1]"},
           {{.repetition_penalty = 0}, "sampling: repetition_penalty 0 is not positive or not finite"},
           {{.repetition_penalty = kInfinite}, "sampling: repetition_penalty inf is not positive or not finite"},
           {{.temperature = 0}, ""},
           {{.top_k = 0, .top_p = 1}, ""},
           {{.min_p = 1}, ""},
           {{.repetition_penalty = 1.5, .min_p = 0}, ""}})
    check_refusal(draw(options), expected);
  check_refusal(draw({.repetition_penalty = 2}, {1, 4}), "sampling: token 4 has no score");
  check_refusal(draw({.repetition_penalty = 2}, {-1}), "sampling: token -1 has no score");
  const std::vector<real> none;
  RandomStream random(1, Purpose::test);
  check_refusal([&] { sample_token(none, {}, random, {}); }, "sampling: there are no scores");

  Parameters parameters(1);
  const LanguageModel model(
      parameters.root(),
      {.vocabulary = 5, .layer = {.d_model = 4, .n_heads = 1, .d_ff = 4}, .n_layers = 1, .max_length = 6});
  Ragged prompts;
  prompts.add(std::vector<int>{1});
  const auto generating = [&](const GenerateOptions& o) { return [&, o] { generate(model, prompts, o); }; };
  check_refusal(generating({.max_tokens = -1}), "generate: max_tokens -1 is negative");
  check_refusal(generating({.max_tokens = 2, .stride = 0}),
                "generate: stride 0 is not in 1..6, the model's max_length");
  check_refusal(generating({.max_tokens = 2, .stride = 7}),
                "generate: stride 7 is not in 1..6, the model's max_length");
  check_refusal(generating({.max_tokens = 9, .stride = 6}), "");
  prompts.add(std::vector<int>{});
  check_refusal(generating({.max_tokens = 2, .stride = 1}), "generate: prompt 1 is empty");
}

BOOST_AUTO_TEST_CASE(layers) {
  Parameters parameters(1);
  const Scope s = parameters.root();
  const auto attends = [&](const char* name, int width, int heads, int kv_heads) {
    return [=] { MultiHeadAttention(s / name, width, heads, {.n_kv_heads = kv_heads}); };
  };
  check_refusal(attends("a", 8, 3, 0), "attention: d_model 8 is not a multiple of 3 heads (a)");
  check_refusal(attends("b", 8, 0, 0), "attention: d_model 8 is not a multiple of 0 heads (b)");
  check_refusal(attends("c", 8, 4, 3), "attention: 4 heads are not a multiple of 3 of keys and values (c)");
  check_refusal(attends("d", 8, 4, -1), "attention: 4 heads are not a multiple of -1 of keys and values (d)");
  check_refusal(attends("e", 8, 4, 2), "");
  check_refusal(attends("f", 8, 4, 0), "");
  check_refusal(
      [&] { PositionalEncoding(s / "g", Positions::learned, 0, 8); },
      "positional encoding: max_positions 0 or theta 10000 is not positive, or n_heads 1 does not divide d_model 8");
  check_refusal(
      [&] { PositionalEncoding(s / "g", Positions::rotary, 4, 8, {.n_heads = 0}); },
      "positional encoding: max_positions 4 or theta 10000 is not positive, or n_heads 0 does not divide d_model 8");
  check_refusal(
      [&] { PositionalEncoding(s / "g", Positions::alibi, 4, 8, {.n_heads = 3}); },
      "positional encoding: max_positions 4 or theta 10000 is not positive, or n_heads 3 does not divide d_model 8");
  check_refusal(
      [&] { PositionalEncoding(s / "g", Positions::rotary, 4, 8, {.theta = 0}); },
      "positional encoding: max_positions 4 or theta 0 is not positive, or n_heads 1 does not divide d_model 8");
  check_refusal([&] { PositionalEncoding(s / "h", Positions::rotary, 4, 6, {.n_heads = 2}); },
                "positional encoding: rotary positions turn pairs of columns, but heads have 3");
  const PositionalEncoding positions(s / "i", Positions::sinusoid, 4, 8);
  const std::vector<int> rows{0, 4, 9}, fits{0, 4, 8};
  check_refusal([&] { positions.ids(rows); }, "positional encoding: sequence 1 has 5 positions, the table 4");
  check_refusal([&] { positions.ids(fits); }, "");
  for (const std::vector<int>& bad : std::vector<std::vector<int>>{{}, {1, 2}, {0, 4, 2}, {0, -3}, {-1, 0}})
    check_refusal([&] { positions.ids(bad); }, "positions: offsets must rise from 0");
  for (const double p : {-0.5, 1.5}) {
    char number[16];
    std::snprintf(number, sizeof number, "%g", p);
    check_refusal([&] { Dropout{p}; }, std::string("dropout: p = ") + number + " is not in [0, 1]");
  }
  check_refusal([&] { Dropout{0}, Dropout{1}; }, "");
  const auto valid = [](const LayerConfig& c) { return [c] { c.validate(); }; };
  check_refusal(valid({.d_model = 8, .n_heads = 3}), "layer: d_model 8 is not a multiple of n_heads 3");
  check_refusal(valid({.d_model = 8, .n_heads = 0}), "layer: d_model 8 is not a multiple of n_heads 0");
  check_refusal(valid({.d_model = 8, .n_heads = 4, .n_kv_heads = 3}),
                "layer: n_heads 4 is not a multiple of n_kv_heads 3");
  check_refusal(valid({.d_model = 8, .n_heads = 4, .n_kv_heads = 2}), "");
}

BOOST_AUTO_TEST_CASE(optimisers) {
  Parameters parameters(1);
  parameters.root().parameter("w", {2}, init_ones());
  const auto grouped = [&](const ParameterGroup& group) { return [&, group] { Adam(parameters, {}, {group}); }; };
  const std::string rule = ", which must be finite and not negative";
  check_refusal(grouped({.prefix = "w", .lr = -1}), "optimiser: group 'w' has lr -1 and weight_decay 0" + rule);
  check_refusal(grouped({.prefix = "w", .lr = kInfinite}), "optimiser: group 'w' has lr inf and weight_decay 0" + rule);
  check_refusal(grouped({.prefix = "w", .lr = 2, .weight_decay = -0.5}),
                "optimiser: group 'w' has lr 2 and weight_decay -0.5" + rule);
  check_refusal(grouped({.prefix = "v"}), "optimiser: no parameter has a name that begins with 'v'");
  check_refusal(grouped({.prefix = "w", .lr = 0, .weight_decay = 0}), "");
  const auto sgd = [&](const SgdConfig& c) { return [&, c] { Sgd(parameters, c); }; };
  check_refusal(sgd({.momentum = 1}), "sgd: momentum 1 is not in [0, 1)");
  check_refusal(sgd({.momentum = -0.5}), "sgd: momentum -0.5 is not in [0, 1)");
  check_refusal(sgd({.weight_decay = -1}), "sgd: weight_decay -1 is negative or not finite");
  check_refusal(sgd({.momentum = 0, .nesterov = true}), "sgd: nesterov needs momentum");
  check_refusal(sgd({.momentum = 0, .weight_decay = 0}), "");
  check_refusal([&] { Ema(parameters, 1); }, "ema: decay 1 is not in [0, 1)");
  check_refusal([&] { Ema(parameters, -0.25); }, "ema: decay -0.25 is not in [0, 1)");
  check_refusal([&] { Ema(parameters, 0); }, "");
  const auto trains = [&](const TrainerConfig& c) { return [&, c] { Trainer(parameters, c); }; };
  check_refusal(trains({.lr = 0.5, .min_lr = 0.75}), "trainer: min_lr 0.75 is above lr 0.5");
  check_refusal(trains({.lr = 0.5, .min_lr = 0.5}), "");
  const auto splits = [&](std::size_t shards, std::size_t rounds) {
    return [&, shards, rounds] { DataParallel(parameters, shards, rounds); };
  };
  check_refusal(splits(65, 1), "data parallel: 65 shards are not in 1..64");
  check_refusal(splits(64, 1001), "data parallel: 1001 rounds are not in 1..1000");
  check_refusal(splits(64, 0), "data parallel: 0 rounds are not in 1..1000");
  check_refusal(splits(64, 1000), "");
}

// Buffers such as running statistics are not weights: they are neither decayed nor trained.
BOOST_AUTO_TEST_CASE(buffers_neither_decay_nor_learn) {
  Parameters parameters(1);
  parameters.root().buffer("statistics", {3, 2}, init_ones());
  parameters.root().parameter("matrix", {3, 2}, init_ones());
  parameters.root().parameter("vector", {3}, init_ones());
  parameters.root().parameter("vector_that_decays", {3}, init_ones(), /*decay=*/true);
  const auto entries = parameters.entries();
  BOOST_REQUIRE_EQUAL(entries.size(), 4u);
  for (const auto& entry : entries) {
    BOOST_CHECK_EQUAL(entry.trained, entry.name != "statistics");
    BOOST_CHECK_EQUAL(entry.decay, entry.name == "matrix" || entry.name == "vector_that_decays");
  }
}
