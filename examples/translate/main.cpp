// translate: the encoder-decoder Transformer on the task it was invented for.
#include "app/checkpoint_config.h"
#include "app/command_line.h"
#include "app/training.h"
#include "translate/data.h"
#include "translate/model.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/summary.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <iostream>

namespace translate {
namespace {

using examples::CommandLine;
using examples::UsageError;
using nlohmann::json;

constexpr const char* kTask =
    "The task: translate texts. Without data of yours, numbers and dates written out in English and German\n"
    "become digits, and digits become words:\n"
    "  the third of May nineteen eighty-seven -> 1987-05-03        de 305 -> dreihundertfünf\n"
    "BLEU is that of the whole corpus over words between blanks; perplexity is that of tokens, each\n"
    "predicted from the right ones before it.";

// ---- train ---------------------------------------------------------------------------------------

struct Preset {
  ModelOptions model;
  DataOptions data;
  examples::TrainingOptions training;
  double label_smoothing = 0.1;
  int average = 5;
  std::string best = "bleu";
};

Preset preset_of(const std::string& name) {
  Preset p;
  p.training.out = "runs/translate";
  p.training.eval_interval = 1;
  p.training.adam = {.beta1 = 0.9, .beta2 = 0.98, .eps = 1e-9};
  p.training.schedule = "noam";
  if (name == "sentences") {  // the model of the German-English tutorials
    p.model.dropout = 0.2;    // with 0.1 it learns by heart after some 14 epochs
    p.model.tie_output = true;
    p.training.schedule = "cosine";
    p.training.epochs = 16;
    p.training.batch_size = 128;
    p.training.lr = 1e-3;
    p.training.warmup_steps = 1000;
  } else if (name == "d2l") {  // that of the book's first edition
    p.model = {.d_model = 32, .n_heads = 4, .d_ff = 64, .enc_layers = 2, .dec_layers = 2, .max_tokens = 10};
    p.model.positions = "sinusoid";
    p.data.max_pairs = 729;  // 601 for training, as the book takes one too many
    p.data.validation = 128;
    p.data.normalise = true;
    p.training.epochs = 200;
    p.training.batch_size = 64;
    p.training.lr = 5e-3;
    p.training.schedule = "const";
    p.training.adam = {};
    p.training.eval_interval = 20;
    p.label_smoothing = 0;
    p.average = 1;
    p.best = "last";
  } else {
    p.model = {.d_model = 128, .n_heads = 4, .d_ff = 256, .enc_layers = 2, .dec_layers = 2, .dropout = 0};
    p.model.positions = "sinusoid";
    p.data.tokens = "characters";
    p.data.min_frequency = 1;
    p.training.epochs = 12;
    p.training.batch_size = 64;
    p.training.lr = 2e-3;
    p.training.warmup_steps = 400;
    p.training.schedule = "cosine";
    p.best = "exact";
  }
  return p;
}

std::string preset_named_in(const std::vector<std::string>& arguments) {
  const bool has_files = std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument.starts_with("--src") || argument.starts_with("--pairs");
  });
  return examples::option_in(arguments, "preset", has_files ? "sentences" : "numbers");
}

json to_json(const Score& s) {
  return {{"val_perplexity", s.tokens.perplexity},
          {"val_token_accuracy", s.tokens.accuracy},
          {"val_bleu", 100 * s.bleu.score},
          {"val_bleu_2", s.bleu_2},
          {"val_exact", s.exact}};
}

void print_score(const Score& s, std::size_t pairs) {
  std::cout << fmt::format("{} pairs: BLEU {:.2f}", pairs, 100 * s.bleu.score);
  std::cout << fmt::format(" ({:.1f}", 100 * s.bleu.precisions[0]);
  for (std::size_t n = 1; n < s.bleu.precisions.size(); ++n)
    std::cout << fmt::format(" / {:.1f}", 100 * s.bleu.precisions[n]);
  std::cout << fmt::format(", brevity {:.3f})  exact {:.2f} %  perplexity {:.3f}\n", s.bleu.brevity_penalty,
                           100 * s.exact, s.tokens.perplexity);
}

seppo::BeamOptions beam_options(int max_tokens, int beam, double length_penalty) {
  return {.bos = kBos, .eos = kEos, .max_length = max_tokens, .beam = beam, .length_penalty = length_penalty};
}

// Keeps the best of the models that were saved, and the last ones for averaging.
class Keeper {
 public:
  Keeper(std::filesystem::path folder, std::string measure, int last, seppo::Parameters& parameters, const json& config)
      : folder_(std::move(folder)),
        measure_(std::move(measure)),
        last_(last),
        parameters_(parameters),
        config_(config) {}

  void save(const json& scores) {
    save_if_best(scores);
    if (last_ < 2) return;
    files_.push_back(folder_ / "last" / fmt::format("{}.safetensors", ++saved_));
    std::filesystem::create_directories(folder_ / "last");
    seppo::save_checkpoint(files_.back(), parameters_, {});
    if (files_.size() <= static_cast<std::size_t>(last_)) return;
    std::filesystem::remove(files_.front());
    files_.pop_front();
  }
  // True if the scores are the best so far, by the measure.
  bool save_if_best(const json& scores) {
    if (measure_ != "last") {
      const double value = scores.at("val_" + measure_).get<double>() * (measure_ == "perplexity" ? -1 : 1);
      if (has_best_ && value <= best_) return false;
      best_ = value;
    }
    has_best_ = true;
    examples::save_model(folder_, parameters_, config_);
    return true;
  }
  // Loads the mean of the models saved last; false if there is only one.
  bool load_average() {
    if (files_.size() < 2) return false;
    seppo::load_average(std::vector(files_.begin(), files_.end()), parameters_);
    return true;
  }
  void load_best() { seppo::load_checkpoint(folder_ / "model.safetensors", parameters_); }

 private:
  std::filesystem::path folder_;
  std::string measure_;
  int last_, saved_ = 0;
  seppo::Parameters& parameters_;
  const json& config_;
  bool has_best_ = false;
  double best_ = 0;
  std::deque<std::filesystem::path> files_;
};

std::vector<examples::ReportSample> report_samples(const seppo::Transformer& model, const Languages& languages,
                                                   std::span<const Pair> pairs, const seppo::BeamOptions& options) {
  std::vector<examples::ReportSample> samples;
  Examples encoded = encode(languages, pairs);
  encoded.cut_long(model.config.max_length);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<int>& source = encoded.sources[i];
    const std::vector<int> target = translate(model, {&source, 1}, options)[0][0].tokens;
    examples::ReportSample sample{.input = pairs[i].source,
                                  .expected = languages.tokenizer.prepare(pairs[i].target),
                                  .output = languages.decode(target),
                                  .maps = attention_of(model, source, target)};
    for (const auto& map : sample.maps) sample.labels.push_back(attention_labels(map, languages, source, target));
    samples.push_back(std::move(sample));
  }
  return samples;
}

int train(const std::vector<std::string>& arguments) {
  std::string preset = preset_named_in(arguments);
  auto [model_options, data_options, options, label_smoothing, average, best] = preset_of(preset);
  int beam = 4;
  double length_penalty = 1;
  CommandLine line("usage: translate train [options]", kTask);
  line.choice("preset", &preset, {"numbers", "sentences", "d2l"},
              "numbers and dates; a small model for sentences (the default with --src or --pairs); a tiny one");
  data_options.add_to(line);
  line.section("Model");
  line.integer("d-model", &model_options.d_model, 1, 4096, "width");
  line.integer("heads", &model_options.n_heads, 1, 256, "attention heads; they divide the width");
  line.integer("d-ff", &model_options.d_ff, 1, 65536, "width of the feed-forward layers");
  line.integer("enc-layers", &model_options.enc_layers, 0, 64, "encoder layers");
  line.integer("dec-layers", &model_options.dec_layers, 1, 64, "decoder layers");
  line.integer("max-tokens", &model_options.max_tokens, 2, 65536,
               "of a text; longer pairs are not trained on, longer sources are cut");
  line.number("dropout", &model_options.dropout, 0, 0.999, "dropout of embeddings and sublayers");
  line.choice("norm", &model_options.norm, {"post", "pre"}, "layer norm after or before the sublayers");
  line.choice("positions", &model_options.positions, examples::position_names(), "positional encoding");
  line.flag("tie-output", &model_options.tie_output, "the output layer shares its weight with the target embedding");
  options.add_to(line);
  line.number("label-smoothing", &label_smoothing, 0, 0.999, "share of the target spread over all tokens");
  line.choice("best", &best, {"bleu", "exact", "perplexity", "last"},
              "which evaluation decides what model is kept; last: none");
  line.integer("average", &average, 1, 1000, "at the end, try the mean of the models of the last evaluations, too");
  line.integer("beam", &beam, 1, 1000, "for the last evaluation; those before are greedy");
  line.number("length-penalty", &length_penalty, 0, 100, "exponent of the length that scores are divided by");
  if (!line.parse(arguments)) return 0;
  options.validate();
  data_options.validate(line);
  examples::check_heads(model_options.d_model, model_options.n_heads);
  examples::use_threads(options.threads);

  const Data data = load(data_options, options.seed);
  const Languages languages = make_languages(data_options, data.train);
  Examples train_examples = encode(languages, data.train);
  const std::size_t dropped = train_examples.drop_long(model_options.max_tokens);
  if (train_examples.size() == 0)
    throw UsageError(fmt::format("--max-tokens: no pair for training has only {} tokens", model_options.max_tokens));
  const std::vector<int> lengths = train_examples.lengths();

  seppo::Parameters parameters(options.seed);
  const seppo::Transformer model(parameters.root(), model_options.transformer(languages));
  examples::prepare_folder(options.out);
  if (languages.tokenizer.subwords()) languages.tokenizer.subwords()->save(options.out / kSubwordsFile);
  json training = options.to_json();
  training.update({{"label_smoothing", label_smoothing}, {"average", average}, {"best", best}});
  const json config = {{"program", "translate"},
                       {"model", model_options.to_json()},
                       {"languages", languages.to_json()},
                       {"data", data_options.to_json()},
                       {"seed", options.seed},
                       {"training", training}};
  if (options.log_format != "none")
    std::cerr << fmt::format(
        "translate: {} parameters, {} pairs for training ({} longer left out), {} for validation, {} and {} tokens, {} "
        "threads\n",
        parameters.count(), train_examples.size(), dropped, data.validation.size(), languages.source.size(),
        languages.target.size(), seppo::num_threads());

  const seppo::BeamOptions greedy = beam_options(model_options.max_tokens, 1, 0);
  Keeper keeper(options.out, best, average, parameters, config);
  json scores;
  json shown = config;  // vocabularies are too long to show
  shown["languages"].erase("source");
  shown["languages"].erase("target");
  examples::TrainingResult result = examples::train(
      parameters, options,
      {.examples = train_examples.size(),
       .lengths = lengths,
       .loss = [&](std::span<const int> rows) { return loss(model, train_examples, rows, label_smoothing); },
       .evaluate = [&] { return scores = to_json(score(model, languages, data.validation, greedy)); },
       .save = [&] { keeper.save(scores); },
       .name = "seppo: translation",
       .about = kTask,
       .summary = seppo::summary(parameters,
                                 [&] { attention_of(model, train_examples.sources[0], train_examples.targets[0]); }),
       .config = shown,
       .samples =
           [&] {
             return report_samples(model, languages,
                                   std::span(data.validation).first(std::min<std::size_t>(6, data.validation.size())),
                                   greedy);
           }});

  if (keeper.load_average() && keeper.save_if_best(to_json(score(model, languages, data.validation, greedy))) &&
      options.log_format != "none")
    std::cerr << "translate: the mean of the last models is better, and kept\n";
  keeper.load_best();
  const Score last =
      score(model, languages, data.validation, beam_options(model_options.max_tokens, beam, length_penalty));
  print_score(last, data.validation.size());
  result.evaluation = to_json(last);
  examples::print_result(result, options);
  return 0;
}

// ---- eval, predict -------------------------------------------------------------------------------

struct Saved {
  json config;
  Languages languages;
  seppo::Parameters parameters;
  seppo::Transformer model;

  explicit Saved(const std::filesystem::path& file)
      : config(examples::load_config(file, "translate")),
        languages(Languages::from_json(examples::config_part(config, "languages"), file.parent_path())),
        parameters(/*seed=*/0, examples::most_parameters(file)),
        model(parameters.root(),
              ModelOptions::from_json(examples::config_part(config, "model")).transformer(languages)) {
    seppo::load_checkpoint(file, parameters);
  }
};

int eval(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/translate", src, tgt, pairs, out;
  int beam = 4, threads = 0;
  double length_penalty = 1;
  bool as_json = false;
  CommandLine line("usage: translate eval (--src FILE --tgt FILE | --pairs FILE) [options]", kTask);
  line.existing_path("model", &path, "folder or file that `translate train` saved");
  line.existing_path("src", &src, "source texts, one a line");
  line.existing_path("tgt", &tgt, "their translations, line by line");
  line.existing_path("pairs", &pairs, "lines of source, tab, target");
  line.integer("beam", &beam, 1, 1000, "translations followed at once; 1: greedy");
  line.number("length-penalty", &length_penalty, 0, 100, "exponent of the length that scores are divided by");
  line.path("out", &out, "file for the model's translations, one a line");
  line.integer("threads", &threads, 0, 256, "threads; 0: one for each processor");
  line.flag("json", &as_json, "print the result as one JSON object, the last line of standard output");
  if (!line.parse(arguments)) return 0;
  if (src.empty() != tgt.empty()) throw UsageError("--src and --tgt: one needs the other");
  if (src.empty() == pairs.empty()) throw UsageError("--pairs: either these or --src and --tgt are needed");
  examples::use_threads(threads);

  const Saved saved(examples::model_file(path));
  const std::vector<Pair> texts = read_files(src, tgt, pairs);
  const int most = saved.model.config.max_length;
  const Score result = score(saved.model, saved.languages, texts, beam_options(most, beam, length_penalty));
  if (result.cut > 0)
    std::cerr << fmt::format("translate: {} pairs have more than {} tokens and were cut there\n", result.cut, most);
  if (!out.empty()) {
    std::ofstream file(out);
    for (const std::string& text : result.translations) file << text << "\n";
    seppo::check<seppo::FileError>(static_cast<bool>(file.flush()), out.string(), ": cannot be written");
  }
  print_score(result, texts.size());
  json summary = to_json(result);
  summary["pairs"] = texts.size();
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int predict(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/translate";
  examples::AttentionOutput attention;
  int beam = 4, n_best = 1;
  double length_penalty = 1;
  std::vector<std::string> texts;
  CommandLine line("usage: translate predict [options] [TEXT ...]",
                   "Translates each text; without texts, each line of standard input.");
  line.existing_path("model", &path, "folder or file that `translate train` saved");
  line.integer("beam", &beam, 1, 1000, "translations followed at once; 1: greedy");
  line.integer("n-best", &n_best, 1, 1000, "translations to print, with their scores if more than one");
  line.number("length-penalty", &length_penalty, 0, 100, "exponent of the length that scores are divided by");
  attention.add_to(line);
  line.words(&texts);
  if (!line.parse(arguments)) return 0;
  if (n_best > beam) throw UsageError(fmt::format("--n-best: {} is above --beam {}", n_best, beam));

  const Saved saved(examples::model_file(path));
  const int most = saved.model.config.max_length;
  seppo::BeamOptions options = beam_options(most, beam, length_penalty);
  options.n_best = n_best;
  const auto print_translation = [&](const std::string& text) {
    const std::vector<int> source = saved.languages.encode(saved.languages.source, text);
    seppo::check<seppo::ArgumentError>(source.size() <= static_cast<std::size_t>(most), "'", seppo::printable(text),
                                       "' has ", source.size() - 1, " tokens; the model reads at most ", most - 1);
    const auto best = translate(saved.model, {&source, 1}, options)[0];
    for (const seppo::Hypothesis& h : best) {
      if (n_best > 1) std::cout << fmt::format("{:9.4f}  ", h.score);
      std::cout << saved.languages.decode(h.tokens) << std::endl;
    }
    if (!attention.is_wanted()) return;
    const seppo::AttentionMaps maps = attention_of(saved.model, source, best[0].tokens);
    const auto labels = [&](const seppo::AttentionMap& map) {
      return attention_labels(map, saved.languages, source, best[0].tokens);
    };
    attention.show(maps, labels);
  };
  examples::for_each_text(texts, print_translation);
  return 0;
}

}  // namespace
}  // namespace translate

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "translate: a Transformer learns to translate.",
                                {{"train", "train a model and save it", translate::train},
                                 {"eval", "score a saved model on texts", translate::eval},
                                 {"predict", "translate texts", translate::predict}});
}
