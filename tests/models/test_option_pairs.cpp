// Pairwise combinations of non-default options: each legal config is built, trained, saved, loaded and decoded with;
// each illegal one is refused in one line. Fields come from the configs' own lists, so a new one is covered at once.
#include <seppo/autograd/core/parallel.h>
#include <seppo/models/decoding/beam.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include "support/memcheck.h"
#include "support/pairs.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace seppo;
namespace fs = std::filesystem;

namespace {

constexpr int kExamples = 7;

// These options have no field lists for programs. The structured bindings stop compiling when a member is added.
void decoding_fields(ConfigVisitor& v, BeamOptions& o) {
  auto& [bos, eos, max_length, src_positions, beam, n_best, length_penalty, hook] = o;
  static_cast<void>(bos), static_cast<void>(eos), static_cast<void>(hook);  // these depend on the vocabulary
  static_cast<void>(src_positions);                                         // and these on the sources
  v("decode_length", max_length, {1, 100});
  v("beam", beam, {1, 100});
  v("n_best", n_best, {1, 100});
  v("length_penalty", length_penalty, {0, 1000});
}
void decoding_fields(ConfigVisitor& v, GenerateOptions& o) {
  auto& [max_tokens, sampling, stop, stride, seed, hook] = o;
  auto& [repetition_penalty, temperature, top_k, top_p, min_p] = sampling;
  static_cast<void>(stop), static_cast<void>(hook);  // these depend on the vocabulary
  v("max_tokens", max_tokens, {0, 100});
  v("repetition_penalty", repetition_penalty, {1e-3, 1e3});
  v("temperature", temperature, {0, 1e3});
  v("top_k", top_k, {0, 100});
  v("top_p", top_p, {1e-6, 1});
  v("min_p", min_p, {0, 1});
  v("stride", stride, {1, 100});
  v("generate_seed", seed);
}

// All settings of a training run and of the decoding that follows it.
template <class Model, class Decoding>
struct Setup {
  typename Model::Config model;
  TrainerConfig trainer;
  int total_steps = 0;
  bool has_groups = false, has_lengths = false;
  SamplerConfig sampler;
  SgdConfig sgd;
  bool uses_sgd = false;
  double label_smoothing = 0;
  Decoding decoding;

  void fields(ConfigVisitor& v) {
    model.fields(v);
    trainer.fields(v);
    v("total_steps", total_steps, {0, 1e9});
    v("ema_decay", trainer.ema_decay, {0, 0.999});
    v("has_groups", has_groups);
    v("has_lengths", has_lengths);
    sampler.fields(v);
    v("sampler_seed", sampler.seed);
    auto& [momentum, nesterov, weight_decay] = sgd;
    v("sgd_momentum", momentum, {0, 0.999});
    v("nesterov", nesterov);
    v("sgd_decay", weight_decay, {0, 100});
    v("uses_sgd", uses_sgd);
    v("label_smoothing", label_smoothing, {0, 1});
    decoding_fields(v, decoding);
    trainer.steps = total_steps;
  }
};
using Translator = Setup<Transformer, BeamOptions>;
using Writer = Setup<LanguageModel, GenerateOptions>;

// The rules stated in the headers, restated independently.
bool fits(const TransformerConfig& c) { return !c.share_embeddings || c.src_vocabulary == c.tgt_vocabulary; }
bool fits(const LanguageModelConfig&) { return true; }
bool fits(const BeamOptions& o, int max_length) { return o.n_best <= o.beam && o.max_length <= max_length; }
bool fits(const GenerateOptions& o, int max_length) { return o.stride <= max_length; }

template <class S>
bool is_legal(const S& s) {
  const LayerConfig& layer = s.model.layer;
  const TrainerConfig& t = s.trainer;
  const bool is_rotary = s.model.positions == Positions::rotary || s.model.positions == Positions::rotary_halves;
  if (layer.head_width == 0 && layer.d_model % layer.n_heads != 0) return false;
  const int columns = layer.head_width > 0 ? layer.head_width : layer.d_model / layer.n_heads;
  if (is_rotary && columns % 2 != 0) return false;
  if (layer.n_kv_heads > 0 && layer.n_heads % layer.n_kv_heads != 0) return false;
  if (t.min_lr > t.lr || (t.schedule == ScheduleKind::noam && t.warmup_steps == 0)) return false;
  if ((t.schedule == ScheduleKind::cosine || t.schedule == ScheduleKind::linear) && s.total_steps == 0) return false;
  if (s.sgd.nesterov && s.sgd.momentum == 0) return false;
  if (s.sampler.batch_tokens > 0 && (s.sampler.in_order || !s.has_lengths)) return false;
  return fits(s.model) && fits(s.decoding, s.model.max_length);
}

Ragged draw(int vocabulary, int max_length, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  Ragged batch;
  for (int i = 0; i < kExamples; ++i) {
    std::vector<int> sequence(1 + random.below(static_cast<std::uint32_t>(std::min(max_length, 5))));
    for (int& token : sequence) token = static_cast<int>(random.below(static_cast<std::uint32_t>(vocabulary)));
    batch.add(sequence);
  }
  return batch;
}

// The training targets: a target sequence, or the text itself shifted by one.
struct Data {
  explicit Data(const TransformerConfig& c)
      : src(draw(c.src_vocabulary, c.max_length, 1)),
        tgt(draw(c.tgt_vocabulary, c.max_length, 2)),
        next(tgt),
        vocabulary(c.tgt_vocabulary) {
    for (int& token : next.tokens) token = (token + 1) % vocabulary;
  }
  explicit Data(const LanguageModelConfig& c)
      : tgt(draw(c.vocabulary, c.max_length, 2)), next(tgt), vocabulary(c.vocabulary) {
    for (int& token : next.tokens) token = (token + 1) % vocabulary;
  }
  Ragged src, tgt, next;
  int vocabulary;
};

Tensor logits_of(const Transformer& model, const Data& d, std::span<const int> rows) {
  return model.logits(d.src.pick(rows), d.tgt.pick(rows));
}
Tensor logits_of(const LanguageModel& model, const Data& d, std::span<const int> rows) {
  return model(d.tgt.pick(rows));
}

// Scores and decoded tokens.
using Answers = std::vector<double>;
void add(Answers& answers, const std::vector<int>& tokens) {
  answers.insert(answers.end(), tokens.begin(), tokens.end());
}
void decode(Answers& answers, const Transformer& model, const Data& d, BeamOptions o) {
  o.eos = d.vocabulary - 1;
  for (const auto& found : beam_search(model, d.src, o))
    for (const Hypothesis& h : found) {
      BOOST_CHECK(h.tokens.size() <= static_cast<std::size_t>(o.max_length));
      answers.push_back(h.score);
      add(answers, h.tokens);
    }
  for (const auto& target : greedy_decode(model, d.src, {.eos = o.eos, .max_length = o.max_length}))
    add(answers, target);
}
void decode(Answers& answers, const LanguageModel& model, const Data& d, GenerateOptions o) {
  for (const bool stops : {false, true}) {
    if (stops) o.stop = {d.vocabulary - 1};
    for (const auto& text : generate(model, d.tgt, o)) {
      BOOST_CHECK(text.size() <= static_cast<std::size_t>(o.max_tokens));
      add(answers, text);
    }
  }
}
const std::vector<int> kAll{0, 1, 2, 3, 4, 5, 6};
template <class Model, class Decoding>
Answers answers_of(const Model& model, const Data& data, const Decoding& decoding) {
  const Inference inference;
  const Tensor logits = logits_of(model, data, kAll);
  Answers answers(logits.values().begin(), logits.values().end());
  decode(answers, model, data, decoding);
  for (const double x : answers) BOOST_CHECK(std::isfinite(x));
  return answers;
}

template <class Model>
ShardLoss loss_of(const Model& model, const Data& data, std::span<const int> rows, double smoothing) {
  return classification_loss(logits_of(model, data, rows), data.next.pick(rows).tokens, smoothing);
}

struct File {
  fs::path path = fs::temp_directory_path() / ("seppo-option-pairs-" + std::to_string(::getpid()));
  ~File() { fs::remove(path); }
};

ParameterGroups groups_of(bool has_groups) {
  return has_groups ? ParameterGroups{{.prefix = "", .lr = 0.5, .weight_decay = 0.1}} : ParameterGroups{};
}

// Runs two training steps, collects answers, then takes a third step and returns everything as numbers; along the way,
// checks that whatever is saved and loaded again is the same.
template <class Model, class Decoding>
Answers live(const Setup<Model, Decoding>& s, int threads) {
  set_num_threads(threads);
  const File file;
  Parameters parameters(s.trainer.seed);
  const Model model(parameters.root(), s.model);
  const Data data(s.model);
  std::vector<int> lengths;
  for (std::size_t i = 0; i < data.tgt.size() && s.has_lengths; ++i)
    lengths.push_back(static_cast<int>(data.tgt[i].size()));
  Sampler sampler(kExamples, s.sampler, lengths);
  Trainer trainer(parameters, s.trainer, groups_of(s.has_groups));
  Sgd sgd(parameters, s.sgd, groups_of(s.has_groups));
  const auto step = [&](Trainer& by, const Model& of) {
    return by.step(sampler.next(),
                   [&](std::span<const int> rows) { return loss_of(of, data, rows, s.label_smoothing); });
  };
  for (int i = 0; i < 2; ++i) {
    double loss = 0;
    if (s.uses_sgd) {
      tape().clear();
      tape().random = {.seed = s.trainer.seed, .step = static_cast<std::uint32_t>(i)};
      const ShardLoss sum = loss_of(model, data, sampler.next(), s.label_smoothing);
      loss = sum.loss.item();
      backward(sum.loss);
      sgd.step(0.1, 1 / sum.count);
      tape().clear();
    } else {
      const StepResult result = step(trainer, model);
      BOOST_CHECK(!result.is_skipped && std::isfinite(result.gradient_norm));
      loss = result.loss;
    }
    BOOST_CHECK(std::isfinite(loss));
  }
  Answers answers = answers_of(model, data, s.decoding);
  const auto same = [&](const Model& loaded) { return answers_of(loaded, data, s.decoding) == answers; };

  save_model(file.path, parameters, model);
  const SavedModel<Model> saved = load_model<Model>(file.path);
  BOOST_CHECK(same(saved.model));
  BOOST_CHECK(to_json_object(saved.model.config) == to_json_object(s.model));

  // The third step continues from a checkpoint as if there had been no interruption.
  trainer.save(file.path);
  Parameters others(s.trainer.seed + 1);
  const Model other(others.root(), s.model);
  Trainer going_on(others, s.trainer, groups_of(s.has_groups));
  going_on.load(file.path);
  BOOST_CHECK(same(other));
  const auto at = trainer.steps();
  sampler.seek(at);
  const double loss = step(trainer, model).loss;
  sampler.seek(at);
  BOOST_CHECK_EQUAL(step(going_on, other).loss, loss);
  BOOST_CHECK(std::ranges::equal(parameters.values(), others.values()));
  if (s.trainer.ema_decay > 0)
    BOOST_CHECK(std::ranges::equal(trainer.averages().averages(), going_on.averages().averages()));
  answers.push_back(loss);
  const auto values = parameters.values();
  answers.insert(answers.end(), values.begin(), values.end());
  set_num_threads(1);
  return answers;
}

template <class S>
std::string told(S s) {
  return nlohmann::json(to_json_object(s)).dump();
}

template <class S>
void check_pairs() {
  test::Pairs<S> pairs({}, is_legal<S>, 1);
  int rows = 0, illegal = 0;
  while (const auto setup = pairs.next()) {
    if (rows++ % 4 > 0 && test::is_in_memcheck()) continue;
    BOOST_TEST_CONTEXT(told(*setup)) {
      try {
        BOOST_CHECK(live(*setup, 1) == live(*setup, 2));
      } catch (const Error& e) {
        BOOST_ERROR(std::string("refused: ") + e.what());
      }
    }
  }
  for (int i = 0; i < 1000; ++i) {
    const S setup = pairs.any();
    if (is_legal(setup)) continue;
    ++illegal;
    BOOST_TEST_CONTEXT(told(setup)) {
      try {
        live(setup, 1);
        BOOST_ERROR("accepted");
      } catch (const ArgumentError& e) {
        const std::string text = e.what();
        BOOST_CHECK_MESSAGE(text.size() < 200 && text.find('\n') == text.npos, text);
      }
      tape().clear();
    }
  }
  std::cout << pairs.fields() << " fields, " << pairs.pairs() << " pairs in " << rows << " rows, "
            << pairs.impossible().size() << " impossible, " << illegal << " configs refused\n";
  for (const std::string& text : pairs.impossible()) BOOST_TEST_MESSAGE(text);
  BOOST_CHECK_GT(illegal, 500);
  BOOST_CHECK_LT(pairs.impossible().size(), pairs.pairs() / 150);  // e.g. widths that n_heads does not divide
}

}  // namespace

BOOST_AUTO_TEST_CASE(transformers) { check_pairs<Translator>(); }

BOOST_AUTO_TEST_CASE(language_models) { check_pairs<Writer>(); }

// All defaults but the vocabulary sizes, which depend on the data, and the number of layers, kept small.
BOOST_AUTO_TEST_CASE(defaults_fit_each_other) {
  Parameters parameters(1);
  TransformerConfig base;
  base.src_vocabulary = base.tgt_vocabulary = 3;
  base.enc_layers = base.dec_layers = 1;
  const Transformer transformer(parameters.root() / "a", base);
  BOOST_CHECK(transformer.encoder.layers[0].self_attn.n_heads == 8 && transformer.src_embedding.weight.size(1) == 512);
  LanguageModelConfig small;
  small.vocabulary = 3;
  small.n_layers = 1;
  const LanguageModel model(parameters.root() / "b", small);
  BOOST_CHECK(model.layers.layers[0].self_attn.n_heads == 6 && model.embedding.weight.size(1) == 384);
}

// Each field out of range by itself.
BOOST_AUTO_TEST_CASE(values_out_of_range) {
  const auto check_fields = [](const auto& legal, const auto& build) {
    auto config = legal;
    int refused = 0;
    test::for_each_field(config, [&](const Field& field) {
      const auto try_value = [&](auto* value, double bad) {
        const auto before = *value;
        *value = static_cast<std::decay_t<decltype(*value)>>(bad);
        BOOST_CHECK_EXCEPTION(build(config), ArgumentError, [&](const ArgumentError& e) {
          return std::string(e.what()).find(field.name) != std::string::npos;
        });
        *value = before;
        ++refused;
      };
      for (const double bad : {field.range.least - 1, field.range.most + 1}) {
        if (auto* const* whole = std::get_if<int*>(&field.value)) try_value(*whole, bad);
        if (auto* const* number = std::get_if<double*>(&field.value)) try_value(*number, bad);
        if (auto* const* two = std::get_if<std::array<double, 2>*>(&field.value)) try_value(&(**two)[1], bad);
      }
    });
    build(config);
    BOOST_CHECK_GT(refused, 5);
  };
  const LayerConfig layer{.d_model = 4, .n_heads = 2, .d_ff = 4};
  Parameters parameters(1);
  parameters.root().parameter("w", {1}, init_ones());
  int models = 0;
  const auto scope = [&] { return parameters.root() / "model" / models++; };
  check_fields(TransformerConfig{.src_vocabulary = 3, .tgt_vocabulary = 3, .layer = layer, .enc_layers = 1},
               [&](const TransformerConfig& c) { Transformer(scope(), c); });
  check_fields(LanguageModelConfig{.vocabulary = 3, .layer = layer, .n_layers = 1},
               [&](const LanguageModelConfig& c) { LanguageModel(scope(), c); });
  check_fields(TrainerConfig{}, [&](const TrainerConfig& c) { Trainer(parameters, c); });
  for (const SamplerConfig& c :
       {SamplerConfig{.batch_size = 0}, SamplerConfig{.batch_size = 1'000'001}, SamplerConfig{.epoch_steps = -1}})
    BOOST_CHECK_THROW(Sampler(3, c), ArgumentError);
}
