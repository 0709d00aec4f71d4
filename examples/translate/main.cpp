// translate: the encoder-decoder Transformer on the task it was invented for.
#include "app/invocation.h"
#include "app/paths.h"
#include "app/printable.h"
#include "app/run_program.h"
#include "app/words.h"
#include "translate/score.h"

#include <seppo/nn/io/json.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/run/data_digest.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

namespace translate {
namespace {

using app::UsageError;
using nlohmann::json;

enum class Preset { numbers, sentences, d2l };
std::span<const char* const> enum_names(Preset) {
  static constexpr const char* kNames[] = {"numbers", "sentences", "d2l"};
  return kNames;
}

// Does a file of options name texts? What is wrong with it is said when it is read for its options.
bool names_texts(const std::string& config) try {
  if (!std::filesystem::is_regular_file(config)) return false;
  const json data = seppo::parse_json(seppo::read_text(config), config).at("data");
  return data.value("src", "") + data.value("pairs", "") != "";
} catch (const std::exception&) {
  return false;
}

Preset preset_in(const app::Arguments& arguments) {
  const auto names_file = [](const std::string& argument) {
    return argument.starts_with("--src") || argument.starts_with("--pairs");
  };
  const bool has_files =
      std::ranges::any_of(arguments, names_file) || names_texts(app::option_in(arguments, "config", ""));
  return app::option_in(arguments, "preset", has_files ? Preset::sentences : Preset::numbers);
}

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

std::string spaced(std::string_view text) { return app::joined(words_of(text)); }

int eval(const app::Arguments& arguments);

struct Translate {
  using Model = Transformer;
  using Examples = translate::Examples;

  Preset preset = Preset::numbers;
  DataConfig source = {};
  seppo::TransformerConfig model = {.layer = {.d_model = 128, .n_heads = 4, .d_ff = 256, .dropout = 0},
                                    .enc_layers = 2,
                                    .dec_layers = 2,
                                    .max_length = 100};
  RecipeConfig recipe = {};
  app::TrainingConfig training = {
      .best = "bleu", .average = 5, .trainer = {.adam = {.betas = {0.9, 0.98}, .eps = 1e-9}}};
  Languages languages = {};
  Corpus corpus = {};
  bool best_is_given = false;
  SearchConfig search = kGreedy;  // of samples() and `predict`
  int n_best = 1;

  static app::About about() {
    return {.name = "translate",
            .summary = "a Transformer learns to translate.",
            .title = "seppo: translation",
            .task =
                "The task: translate texts. Without data of yours, numbers and dates written out in English and German "
                "become digits, and digits become words:\n"
                "  the third of May nineteen eighty-seven -> 1987-05-03\n"
                "  de 305 -> dreihundertfünf\n"
                "BLEU is that of the whole corpus over words between blanks, and over characters too for texts without "
                "blanks; perplexity is that of tokens, each predicted from the right ones before it. Tokens that the "
                "model does not know are left out of the loss and of the perplexity, and count as wrong in the "
                "accuracy.",
            .measures = {"bleu", "bleu_characters", "exact", "token_accuracy"},
            .shown = {"src", "tgt", "pairs", "tokens", "d-model", "enc-layers", "dec-layers"},
            .query = "TEXT",
            .predicts = "translate texts",
            .predict_help = "Translates each text; without texts, each line of standard input.",
            .rows = "training pairs",
            .chunk = kChunk,
            .offers_weights = true};
  }

  static std::vector<app::Command> commands() { return {{"eval", "score a saved model on texts", eval}}; }

  // ---- options

  void use(Preset chosen) {
    preset = chosen;
    seppo::TrainerConfig& trainer = training.trainer;
    switch (preset) {
      case Preset::numbers:
        source.tokenizer.kind = Tokenizer::Kind::characters;
        source.min_frequency = 1;
        training.epochs = 12;
        training.sampler.batch_size = 64;
        trainer.schedule = seppo::ScheduleKind::cosine;
        trainer.lr = 2e-3;
        trainer.warmup_steps = 400;
        training.best = "exact";
        return;
      case Preset::sentences:  // the recipe of docs/records.md for Multi30k
        model.layer = {.d_model = 128, .n_heads = 4, .d_ff = 256, .dropout = 0.2, .norm = seppo::Norm::pre};
        model.enc_layers = model.dec_layers = 4;
        model.positions = seppo::Positions::learned;
        model.share_embeddings = model.tie_output = true;
        source.tokenizer.kind = Tokenizer::Kind::subwords;
        source.subwords = 4000;
        training.epochs = 30;
        training.average = 10;
        training.sampler.batch_size = 128;
        trainer.schedule = seppo::ScheduleKind::cosine;
        trainer.lr = 3e-3;
        trainer.warmup_steps = 1500;
        trainer.adam.weight_decay = 1e-4;
        recipe.search = {.beam = 5, .length_penalty = 1.5};
        return;
      case Preset::d2l:  // the model of the book's first edition
        model.layer = {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0.1};
        model.max_length = 10;
        source.max_pairs = 729;  // 601 for training, because the book reads one too many
        source.validation = 128;
        source.tokenizer.normalises = true;
        training.epochs = 200;
        training.eval_interval = 20;
        training.sampler.batch_size = 64;
        trainer = {.lr = 5e-3};
        training.best = "last";
        training.average = 1;
        recipe.label_smoothing = 0;
    }
  }

  void options(app::CommandLine& line, const app::Arguments& arguments) {
    preset_option(line, arguments);
    line.alias("max-tokens", "max-length");
  }
  void data_options(app::CommandLine& line, const app::Arguments& arguments) {
    preset_option(line, arguments);
    line.fields("data", source);
  }
  void preset_option(app::CommandLine& line, const app::Arguments& arguments) {
    use(preset_in(arguments));
    line("preset", preset,
         "numbers and dates; a small model for sentences (the default with --src or --pairs); the tiny one of the book "
         "Dive into Deep Learning");
    for (const char* file : {"src", "tgt", "pairs", "val_src", "val_tgt", "val_pairs"}) line.must_exist(file);
  }

  void parts(const auto& part) {
    part("data", source);
    part("model", model);
    part("recipe", recipe);
  }

  void settle(const app::CommandLine& line) {
    if (line.typed("subwords") && !source.tokenizer.has_subwords())
      throw UsageError("--subwords: needs --tokens subwords");
    if (line.typed("min-frequency") && source.tokenizer.has_subwords())
      throw UsageError("--min-frequency: cannot be given with --tokens subwords");
    if (!source.tokenizer.has_subwords() && !line.given("share-embeddings")) model.share_embeddings = false;
    if (line.typed("validation") && source.val.are_given())
      throw UsageError("--validation: cannot be used with --val-src or --val-pairs");
    best_is_given = line.typed("best") || line.typed("resume");  // a file of options has the default, too
  }

  // ---- data

  void read() {
    corpus = load(source, training.trainer.seed);
    languages = make_languages(source, corpus.train);
    model.src_vocabulary = languages.source.size();
    model.tgt_vocabulary = languages.target.size();
  }

  // BLEU is the best measure of most texts; of those without blanks, BLEU of characters.
  void choose_best() {
    const bool has_characters = lack_blanks(references_of(languages, corpus.validation));
    if (training.best == "bleu_characters" && !has_characters)
      throw UsageError("--best: bleu_characters is for texts without blanks between words");
    if (training.best == "bleu" && has_characters && !best_is_given) training.best = "bleu_characters";
  }

  app::Data<Examples> data() {
    read();
    const int most = model.max_length;
    const Examples all = encode(languages, corpus.train);
    app::Data<Examples> data{.training = all.without_longer(most),
                             .validation = encode(languages, corpus.validation, most)};
    if (data.training.size() == 0)
      throw UsageError(fmt::format("--max-length: no training pair has at most {} tokens", most));
    const std::string unknown =
        source.tokenizer.has_subwords()
            ? "none unknown"
            : checked_coverage(source.tokenizer.kind, data.training, encode(languages, corpus.validation));
    choose_best();
    data.summary = fmt::format(
        "{} training pairs ({} longer ones left out), {} validation pairs ({} of them in training too), {} and {} "
        "tokens; {}",
        data.training.size(), all.size() - data.training.size(), data.validation.size(), corpus.shared(),
        model.src_vocabulary, model.tgt_vocabulary, unknown);
    data.digest = seppo::digest_of(texts_of(corpus.train), texts_of(corpus.validation));
    data.next =
        "predict " + app::shell_word(source.train.are_given() ? corpus.validation[0].source : std::string("de 305"));
    data.extra = {{"languages", languages.to_json()}};
    return data;
  }

  void read_extra(const json& config) {
    languages = Languages::from_json(config.value("languages", json()));
    seppo::check<seppo::FormatError>(
        model.src_vocabulary == languages.source.size() && model.tgt_vocabulary == languages.target.size(),
        "the model's configuration: its vocabularies do not fit its model");
  }

  Examples all() {
    read();
    return encode(languages, corpus.train);
  }
  std::string row(const Examples& pairs, std::size_t i) const {
    return fmt::format("{}  ->  {}", app::shown_line(pairs.texts[i].source), app::shown_line(pairs.texts[i].target));
  }
  std::string legend() const {
    return fmt::format("; {} validation pairs ({} of them in training too); {} and {} tokens", corpus.validation.size(),
                       corpus.shared(), model.src_vocabulary, model.tgt_vocabulary);
  }

  // ---- loss and measures

  seppo::ShardLoss loss(const Model& model, const Examples& batch) const {
    return translate::loss(model, batch, {.label_smoothing = recipe.label_smoothing});
  }

  Score scored(const Model& model, const Examples& pairs, const SearchConfig& by) const {
    return score(model, languages, pairs, by.options(model.config.max_length));
  }
  app::Evaluation evaluate(const Model& model, const Examples& pairs) const {
    const Score score = scored(model, pairs, kGreedy);
    return {score.loss, score.measures()};
  }
  json conclude(const Model& model, const Examples& pairs) const {
    const Score score = scored(model, pairs, recipe.search);
    score.print();
    return score.summary();
  }

  // ---- one query

  void predict_options(app::CommandLine& line) {
    search = {};
    search.fields(line);
    line("n_best", n_best, {1, 1000}, "translations to print, with their scores if more than one");
    line.check([this] {
      if (n_best > search.beam) throw UsageError(fmt::format("--n-best: {} is above --beam {}", n_best, search.beam));
    });
  }

  Ragged parse(std::string_view text) const {
    const std::vector<int> ids = languages.encode(languages.source, text);
    seppo::check<seppo::ArgumentError>(std::ssize(ids) <= model.max_length, "'", seppo::printable(text), "' has ",
                                       ids.size() - 1, " tokens; the model reads at most ", model.max_length - 1);
    Ragged one;
    one.add(ids);
    return one;
  }

  // The best translation, and what every layer and head attends to while the model reads the source and writes it.
  app::Sample answer(const Model& model, const Ragged& query) const {
    seppo::BeamOptions options = search.options(model.config.max_length);
    options.n_best = n_best;
    const std::vector<seppo::Hypothesis> found = beam_search(model, query, options)[0];
    app::Sample sample{.input = {}, .expected = {}, .output = languages.decode(found[0].tokens)};
    for (const seppo::Hypothesis& h : found) {
      if (!sample.told.empty()) sample.told += "\n";
      if (n_best > 1) sample.told += fmt::format("{:9.4f}  ", h.score);
      sample.told += app::shown_line(languages.decode(h.tokens));
    }
    const std::vector<int>& written = found[0].tokens;
    std::vector<int> read{kBos};
    read.insert(read.end(), written.begin(), written.end() - 1);
    sample.forward = [&model, query, target = Ragged::of({read})] { model.logits(query, target); };
    sample.labels = app::encoder_decoder_labels({languages.source, query.tokens}, {languages.target, read},
                                                {languages.target, written});
    return sample;
  }

  std::vector<app::Sample> samples(const Model& model, const app::Data<Examples>& data) const {
    constexpr std::size_t kSamples = 6;
    std::vector<app::Sample> samples;
    for (const int i : app::first_indices(std::min(kSamples, data.validation.size()))) {
      const Pair& pair = data.validation.texts[static_cast<std::size_t>(i)];
      samples.push_back(answer(model, data.validation.source.pick({i})));
      samples.back().input = pair.source;
      samples.back().expected = spaced(languages.tokenizer.prepare(pair.target));
      samples.back().output = spaced(samples.back().output);
    }
    return samples;
  }
};

// ---- eval, on texts that are given

int eval(const app::Arguments& arguments) {
  app::Trained trained{.program = "translate"};
  SearchConfig search;
  Files files;
  std::filesystem::path out;
  bool as_json = false;
  app::CommandLine line("translate eval (--src FILE --tgt FILE | --pairs FILE) [options]", Translate::about().task);
  trained.fields(line);
  trained.weights_field(line);
  files.fields(line);
  for (const char* file : {"src", "tgt", "pairs"}) line.must_exist(file);
  search.fields(line);
  line("out", out, "file for the model's translations, one per line");
  line("json", as_json, app::kJsonHelp);
  if (!line.parse(arguments)) return 0;
  files.validate();
  if (!files.are_given()) throw UsageError("--pairs: either these or --src and --tgt are needed");
  if (seppo::rank() > 0) out.clear();               // the first rank writes
  if (!out.empty()) app::check_output("out", out);  // fail before the work begins

  const auto saved = trained.load<Transformer>();
  const auto program = app::restored<Translate>(saved.config);
  for (const auto& input : {files.src, files.tgt, files.pairs, trained.file()}) app::check_distinct("out", out, input);
  const int most = saved.model.config.max_length;
  const Examples pairs = encode(program.languages, files.read(), most);
  if (pairs.truncated > 0)
    std::cerr << fmt::format("translate: {} pairs have more than {} tokens and were truncated\n", pairs.truncated,
                             most);
  const Score score = program.scored(saved.model, pairs, search);
  std::string lines;
  for (const std::string& text : score.translations) lines += app::shown_line(text) + "\n";
  if (!out.empty()) seppo::write_text(out, lines);
  score.print();
  json summary = score.summary();
  summary["pairs"] = pairs.size();
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace translate

int main(int argc, char** argv) { return app::run<translate::Translate>(argc, argv); }
