// translate: the encoder-decoder Transformer on the task it was invented for.
#include "app/invocation.h"
#include "app/memory.h"
#include "app/paths.h"
#include "app/run.h"
#include "translate/data.h"
#include "translate/model.h"
#include "translate/scores.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/run/data_digest.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

namespace translate {
namespace {

using examples::Arguments;
using examples::CommandLine;
using examples::Sample;
using examples::UsageError;
using nlohmann::json;

constexpr const char* kTask =
    "The task: translate texts. Without data of yours, numbers and dates written out in English and German become "
    "digits, and digits become words:\n"
    "  the third of May nineteen eighty-seven -> 1987-05-03\n"
    "  de 305 -> dreihundertfünf\n"
    "BLEU is that of the whole corpus over words between blanks, and over characters too for texts without blanks; "
    "perplexity is that of tokens, each predicted from the right ones before it. Tokens that the model does not know "
    "are left out of the loss and of the perplexity, and count as wrong in the accuracy.";

// ---- train ---------------------------------------------------------------------------------------

enum class Preset { numbers, sentences, d2l };
std::span<const char* const> enum_names(Preset) {
  static constexpr const char* kNames[] = {"numbers", "sentences", "d2l"};
  return kNames;
}

// The options of beam search.
struct SearchConfig {
  int beam = 4;
  double length_penalty = 1;

  void fields(seppo::ConfigVisitor& v) {
    v("beam", beam, {1, 1000}, "translations followed at once; 1 is greedy");
    v("length_penalty", length_penalty, {0, 100}, "exponent of (5 + length) / 6, which scores are divided by");
  }
  seppo::BeamOptions options(int max_length) const {
    return {.bos = kBos, .eos = kEos, .max_length = max_length, .beam = beam, .length_penalty = length_penalty};
  }
};
constexpr SearchConfig kGreedy{.beam = 1, .length_penalty = 0};

// Training options that only translation has.
struct RecipeConfig {
  double label_smoothing = 0.1;
  SearchConfig search = {};  // for the final evaluation; all earlier ones are greedy

  void fields(seppo::ConfigVisitor& v) {
    v("label_smoothing", label_smoothing, {0, 0.999}, "share of the target spread evenly over all tokens");
    search.fields(v);
  }
};

struct Setup {
  seppo::TransformerConfig model = {.layer = {.d_model = 256, .n_heads = 8, .d_ff = 512, .dropout = 0.1},
                                    .enc_layers = 3,
                                    .dec_layers = 3,
                                    .positions = seppo::Positions::learned,
                                    .max_length = 100};
  DataConfig data;
  RecipeConfig recipe;
  examples::TrainingConfig training = {
      .best = "bleu", .average = 5, .trainer = {.adam = {.betas = {0.9, 0.98}, .eps = 1e-9}}};
};

Setup setup_of(Preset preset) {
  Setup s;
  seppo::TrainerConfig& trainer = s.training.trainer;
  switch (preset) {
    case Preset::sentences:         // the model of the German-English tutorials
      s.model.layer.dropout = 0.2;  // with 0.1 it starts to overfit after some 14 epochs
      s.model.tie_output = true;
      s.training.epochs = 16;
      s.training.sampler.batch_size = 128;
      trainer.schedule = seppo::ScheduleKind::cosine;
      trainer.lr = 1e-3;
      trainer.warmup_steps = 1000;
      return s;
    case Preset::d2l:  // the model of the book's first edition
      s.model.layer = {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0.1};
      s.model.enc_layers = s.model.dec_layers = 2;
      s.model.max_length = 10;
      s.model.positions = seppo::Positions::sinusoid;
      s.data.max_pairs = 729;  // 601 for training, because the book reads one too many
      s.data.validation = 128;
      s.data.normalise = true;
      s.training.epochs = 200;
      s.training.eval_interval = 20;
      s.training.sampler.batch_size = 64;
      trainer = {.lr = 5e-3};
      s.training.best = "last";
      s.training.average = 1;
      s.recipe = {.label_smoothing = 0};
      return s;
    case Preset::numbers:
      break;
  }
  s.model.layer = {.d_model = 128, .n_heads = 4, .d_ff = 256, .dropout = 0};
  s.model.enc_layers = s.model.dec_layers = 2;
  s.model.positions = seppo::Positions::sinusoid;
  s.data.tokens = Tokenizer::Kind::characters;
  s.data.min_frequency = 1;
  s.training.epochs = 12;
  s.training.sampler.batch_size = 64;
  trainer.schedule = seppo::ScheduleKind::cosine;
  trainer.lr = 2e-3;
  trainer.warmup_steps = 400;
  s.training.best = "exact";
  return s;
}

Preset preset_named_in(const Arguments& arguments) {
  const bool has_files = std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument.starts_with("--src") || argument.starts_with("--pairs");
  });
  return examples::option_in(arguments, "preset", has_files ? Preset::sentences : Preset::numbers);
}

void add_data_options(CommandLine& line, Preset& preset, DataConfig& data) {
  line("preset", preset,
       "numbers and dates; a small model for sentences (the default with --src or --pairs); the tiny one of the book "
       "Dive into Deep Learning");
  line.fields("data", data);
  for (const char* file : {"src", "tgt", "pairs", "val_src", "val_tgt", "val_pairs"}) line.must_exist(file);
}

std::string digest_of(const Data& data) {
  std::vector<std::string> texts;
  for (const std::vector<Pair>* const part : {&data.train, &data.validation})
    for (const Pair& pair : *part) texts.insert(texts.end(), {pair.source, pair.target});
  return seppo::digest_of(texts);
}

std::vector<Sample> report_samples(const seppo::Transformer& model, const Languages& languages,
                                   std::span<const Pair> pairs) {
  std::vector<Sample> samples;
  Examples encoded = encode(languages, pairs);
  encoded.truncate_long(model.config.max_length);
  const auto found = translate(model, encoded.sources, kGreedy.options(model.config.max_length));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    samples.push_back(sample_of(model, languages, encoded.sources[i], found[i][0].tokens));
    samples.back().input = pairs[i].source;
    samples.back().expected = fmt::format("{}", fmt::join(words_of(languages.tokenizer.prepare(pairs[i].target)), " "));
    samples.back().output = fmt::format("{}", fmt::join(words_of(samples.back().output), " "));
  }
  return samples;
}

int train(const Arguments& arguments) {
  Preset preset = preset_named_in(arguments);
  auto [config, data_config, recipe, training] = setup_of(preset);
  examples::Run run{.out = "runs/translate",
                    .measures = {"bleu", "bleu_characters", "exact", "token_accuracy"},
                    .training = training};
  CommandLine line("translate train [options]", kTask);
  add_data_options(line, preset, data_config);
  line.fields("model", config);
  line.alias("max-tokens", "max-length");
  line.show({"src", "tgt", "pairs", "tokens", "d-model", "enc-layers", "dec-layers"});
  run.add_to(line);
  line.fields("recipe", recipe);
  if (!line.parse(arguments)) return 0;
  if (line.typed("subwords") && data_config.tokens != Tokenizer::Kind::subwords)
    throw UsageError("--subwords: needs --tokens subwords");
  if (line.typed("validation") && data_config.has_validation_files())
    throw UsageError("--validation: cannot be used with --val-src or --val-pairs");

  const Data data = load(data_config, run.seed());
  const Languages languages = make_languages(data_config, data.train);
  config.src_vocabulary = languages.source.size();
  config.tgt_vocabulary = languages.target.size();
  Examples train_examples = encode(languages, data.train);
  const std::size_t dropped = train_examples.drop_long(config.max_length);
  if (train_examples.size() == 0)
    throw UsageError(fmt::format("--max-length: no training pair has at most {} tokens", config.max_length));

  const std::string unknown = checked_coverage(data_config, train_examples, encode(languages, data.validation));
  choose_best(line, data.validation, languages, run.training.best);

  seppo::Parameters parameters(run.seed(), examples::most_values());
  const auto model = examples::build<seppo::Transformer>(parameters, config);
  const auto greedy_evaluation = [&] {
    return evaluation_of(score(model, languages, data.validation, kGreedy.options(model.config.max_length)));
  };
  const double smoothing = recipe.label_smoothing;
  const examples::Task task{
      .title = "seppo: translation",
      .about = kTask,
      .data = fmt::format(
          "{} training pairs ({} longer ones left out), {} validation pairs ({} of them in training too), {} and {} "
          "tokens; {}",
          train_examples.size(), dropped, data.validation.size(), data.shared(), config.src_vocabulary,
          config.tgt_vocabulary, unknown),
      .example = "predict " + examples::shell_word(data_config.has_files() ? data.validation[0].source : "de 305"),
      .examples = train_examples.size(),
      .digest = digest_of(data),
      .evaluated = kChunk,
      .lengths = train_examples.lengths(),
      .loss = [&](std::span<const int> rows) { return loss(model, train_examples, rows, smoothing); },
      .evaluate = greedy_evaluation,
      .samples =
          [&] {
            return report_samples(model, languages,
                                  std::span(data.validation).first(std::min<std::size_t>(6, data.validation.size())));
          },
      .extra = {{"languages", languages.to_json()}}};
  examples::Result result = run.train(line, parameters, model, task);

  const Score last = score(model, languages, data.validation, recipe.search.options(config.max_length));
  print_score(last, data.validation.size());
  result.summary = summary_of(last);
  run.finish(line, task, result);
  return 0;
}

// ---- eval, predict -------------------------------------------------------------------------------

struct Saved {
  std::filesystem::path file;
  seppo::SavedModel<seppo::Transformer> saved;
  Languages languages;

  explicit Saved(const examples::Trained& trained)
      : file(trained.file()),
        saved(trained.load<seppo::Transformer>()),
        languages(Languages::from_json(saved.config.value("languages", json()))) {
    const seppo::TransformerConfig& c = saved.model.config;
    seppo::check<seppo::FormatError>(
        c.src_vocabulary == languages.source.size() && c.tgt_vocabulary == languages.target.size(),
        seppo::printable_path(file), ": its vocabularies do not fit its model");
  }
  const seppo::Transformer& model() const { return saved.model; }
};

int eval(const Arguments& arguments) {
  examples::Trained trained{.program = "translate"};
  SearchConfig search;
  std::filesystem::path src, tgt, pairs, out;
  bool as_json = false;
  CommandLine line("translate eval (--src FILE --tgt FILE | --pairs FILE) [options]", kTask);
  trained.fields(line);
  line("src", src, "source texts, one per line");
  line("tgt", tgt, "their translations, line by line");
  line("pairs", pairs, "lines of source, tab, target");
  for (const char* file : {"src", "tgt", "pairs"}) line.must_exist(file);
  search.fields(line);
  line("out", out, "file for the model's translations, one per line");
  line("json", as_json, examples::kJsonHelp);
  if (!line.parse(arguments)) return 0;
  if (src.empty() != tgt.empty()) throw UsageError("--src and --tgt: one needs the other");
  if (src.empty() == pairs.empty()) throw UsageError("--pairs: either these or --src and --tgt are needed");
  if (seppo::rank() > 0) out.clear();                    // the first rank writes
  if (!out.empty()) examples::check_output("out", out);  // fail before the work begins

  const Saved saved(trained);
  for (const std::filesystem::path& input : {src, tgt, pairs, saved.file}) examples::check_distinct("out", out, input);
  const std::vector<Pair> texts = read_files(src, tgt, pairs);
  const int most = saved.model().config.max_length;
  const Score result = score(saved.model(), saved.languages, texts, search.options(most));
  if (result.truncated > 0)
    std::cerr << fmt::format("translate: {} pairs have more than {} tokens and were truncated\n", result.truncated,
                             most);
  std::string lines;
  for (const std::string& text : result.translations) lines += examples::shown_line(text) + "\n";
  if (!out.empty()) seppo::write_text(out, lines);
  print_score(result, texts.size());
  json summary = summary_of(result);
  summary["pairs"] = texts.size();
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int predict(const Arguments& arguments) {
  examples::Trained trained{.program = "translate"};
  examples::AttentionOutput attention;
  SearchConfig search;
  int n_best = 1;
  Arguments texts;
  CommandLine line("translate predict [options] [TEXT ...]",
                   "Translates each text; without texts, each line of standard input.");
  trained.fields(line);
  search.fields(line);
  line("n_best", n_best, {1, 1000}, "translations to print, with their scores if more than one");
  attention.fields(line);
  line.words(&texts);
  if (!line.parse(arguments)) return 0;
  attention.prepare();
  if (n_best > search.beam) throw UsageError(fmt::format("--n-best: {} is above --beam {}", n_best, search.beam));

  const Saved saved(trained);
  const int most = saved.model().config.max_length;
  seppo::BeamOptions options = search.options(most);
  options.n_best = n_best;
  examples::for_each_text(texts, [&](const std::string& text) {
    const std::vector<int> source = saved.languages.encode(saved.languages.source, text);
    if (source.size() > static_cast<std::size_t>(most))
      seppo::fail<seppo::ArgumentError>("'", seppo::printable(text), "' has ", source.size() - 1,
                                        " tokens; the model reads at most ", most - 1);
    const auto best = translate(saved.model(), {&source, 1}, options)[0];
    for (const seppo::Hypothesis& h : best) {
      if (n_best > 1) std::cout << fmt::format("{:9.4f}  ", h.score);
      std::cout << examples::shown_line(saved.languages.decode(h.tokens)) << std::endl;
    }
    if (attention.is_wanted()) attention.show(sample_of(saved.model(), saved.languages, source, best[0].tokens));
  });
  return 0;
}

// ---- data ----------------------------------------------------------------------------------------

int show_data(const Arguments& arguments) {
  Preset preset = preset_named_in(arguments);
  DataConfig config = setup_of(preset).data;
  std::uint64_t seed = 0;
  int head = 10;
  CommandLine line("translate data [options]", "Prints the first training pairs.");
  add_data_options(line, preset, config);
  line("seed", seed, "random seed for drawn data");
  line("head", head, {1, 1e6}, "rows to print");
  if (!line.parse(arguments)) return 0;

  const Data data = load(config, seed);
  const Languages languages = make_languages(config, data.train);
  const std::size_t shown = std::min(data.train.size(), static_cast<std::size_t>(head));
  for (const Pair& pair : std::span(data.train).first(shown))
    std::cout << examples::shown_line(pair.source) << "  ->  " << examples::shown_line(pair.target) << "\n";
  std::cout << fmt::format(
      "{} of {} training pairs; {} validation pairs ({} of them in training too); {} and {} tokens\n", shown,
      data.train.size(), data.validation.size(), data.shared(), languages.source.size(), languages.target.size());
  return 0;
}

}  // namespace
}  // namespace translate

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "translate: a Transformer learns to translate.",
                                {{"train", "train a model and save it", translate::train},
                                 {"eval", "score a saved model on texts", translate::eval},
                                 {"predict", "translate texts", translate::predict},
                                 {"data", "print the first rows of the data", translate::show_data}});
}
