// Trains as all programs do (app/run.h). Each model that is kept is also written in Hugging Face's format, to hf/, and
// adapters without the model to adapter/.
#include "llm/train.h"

#include "app/memory.h"
#include "app/paths.h"
#include "app/run.h"
#include "llm/folder.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/lora.h>
#include <seppo/models/window_score.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/run/data_digest.h>
#include <seppo/nn/run/run_folder.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <iostream>
#include <optional>

namespace llm {

using examples::Arguments;
using examples::CommandLine;
using examples::UsageError;
using seppo::Adapters;
using seppo::Architecture;
using seppo::HfConfig;
using seppo::LanguageModel;
using seppo::Tokenizer;

namespace {

struct DataConfig {
  std::filesystem::path data;
  double train_share = 0.9;
  int window = 0;
  seppo::Bos bos = seppo::Bos::tokenizer;

  void fields(seppo::ConfigVisitor& v) {
    v("data", data, "the text, UTF-8");
    v("train_share", train_share, {0.01, 0.99},
      "share of the text to train on, from its beginning; the rest is for validation");
    v("window", window, {0, 1 << 20}, "tokens per example; 0 for the model's context length");
    v("bos", bos, kBosHelp, {.may_be_missing = true});
  }
};

struct Corpus {
  std::vector<int> train, validation;
};

Corpus read_corpus(const DataConfig& c, const Tokenizer& tokenizer, std::optional<int> bos, int window) {
  const std::vector<int> tokens = tokens_of(tokenizer, seppo::read_text(c.data), c.bos, bos);
  const auto cut = static_cast<std::ptrdiff_t>(c.train_share * static_cast<double>(tokens.size()));
  Corpus corpus{{tokens.begin(), tokens.begin() + cut}, {tokens.begin() + cut, tokens.end()}};
  seppo::check<seppo::FormatError>(std::ssize(corpus.train) > window && corpus.validation.size() > 1,
                                   seppo::printable_path(c.data), ": tokens are too few: training has ",
                                   corpus.train.size(), ", more than the window's ", window,
                                   " are needed, and validation has ", corpus.validation.size(), " of at least 2");
  return corpus;
}

// The model to train, and everything that is written with it.
struct Job {
  HfConfig config;
  const Tokenizer& tokenizer;
  seppo::Parameters& parameters;
  LanguageModel& model;
  const Adapters* adapters = nullptr;
  std::filesystem::path tokenizer_folder = {};

  // Writes hf/ and adapter/.
  void write(const std::filesystem::path& out) const {
    std::optional<Adapters::Merged> merged;
    if (adapters) {
      examples::prepare_folder("out", out / "adapter");
      adapters->save(out / "adapter");
      merged.emplace(*adapters);
    }
    write_folder(out / "hf", config, parameters, tokenizer_folder);
  }
};

std::vector<examples::Sample> samples_of(const Job& job, const LanguageModel& model, const std::vector<int>& tokens) {
  std::vector<examples::Sample> samples;
  const std::size_t length = std::min<std::size_t>(16, tokens.size());
  for (std::size_t i = 0; i < 4; ++i) {
    const auto piece = std::span(tokens).subspan((tokens.size() - length) / 4 * i, length);
    seppo::Ragged prompt;
    prompt.add(piece);
    const auto written = generate(model, prompt, {.max_tokens = 48, .sampling = {.temperature = 0.8}, .seed = i});
    samples.push_back({.input = job.tokenizer.decode(piece),
                       .expected = {},
                       .output = job.tokenizer.decode(written[0]),
                       .maps = {},
                       .labels = {}});
  }
  return samples;
}

int run_training(const CommandLine& line, examples::Run& run, const DataConfig& data, const Job& job,
                 const char* about) {
  const int window = data.window > 0 ? data.window : job.model.config.max_length;
  if (window > job.model.config.max_length)
    throw UsageError(fmt::format("--window: {} tokens are more than the model sees at once, {}", window,
                                 job.model.config.max_length));
  const Corpus corpus = read_corpus(data, job.tokenizer, job.config.bos, window);
  // Called by each thread, because adapted weights belong to the calling thread's tape.
  const auto model = [&] { return job.adapters ? job.adapters->apply() : job.model; };
  const std::size_t bytes = job.tokenizer.decode(corpus.validation, 1).size();
  bool is_written = false;  // the model that is kept
  const examples::Task task{
      .title = "seppo: " + data.data.filename().string(),
      .about = about,
      .data = fmt::format("{} training and {} validation tokens", corpus.train.size(), corpus.validation.size()),
      .example = "generate --max-tokens 200",
      .examples = corpus.train.size() - static_cast<std::size_t>(window),
      .digest = seppo::digest_of(corpus.train, corpus.validation),
      .evaluated = 8,
      .loss = [&](std::span<const int> starts) { return seppo::window_loss(model(), corpus.train, starts, window); },
      .evaluate = [&]() -> examples::Evaluation {
        const seppo::WindowScore now = seppo::score_windows(model, corpus.validation, window, window);
        return {now.loss(), {{"val_bits_per_byte", now.bits_per(bytes)}}};
      },
      .samples =
          [&] {
            const seppo::Inference guard;
            return samples_of(job, model(), corpus.validation);
          },
      .save =
          [&] {
            job.write(run.out);
            is_written = true;
          }};
  const examples::Result result = run.train(line, job.parameters, job.model, task);
  if (!is_written && seppo::rank() == 0) job.write(run.out);  // a resumed run may have kept a model of before
  std::cout << fmt::format("validation   {:.4f} nats a token, {:.4f} bits a byte\n",
                           result.summary["val_loss"].get<double>(), result.summary["val_bits_per_byte"].get<double>());
  run.finish(line, task, result);
  return 0;
}

// The architecture and the tokenizer of a model that is trained from scratch.
struct ShapeConfig {
  Architecture shape = Architecture::llama;
  int d_model = 128, n_heads = 4, n_kv_heads = 0, d_ff = 0, n_layers = 4, max_length = 256;
  double dropout = 0, attention_dropout = 0;
  std::filesystem::path tokenizer;

  void fields(seppo::ConfigVisitor& v) {
    v("shape", shape, "architecture of the model");
    v("d_model", d_model, {1, 65536}, "width of the model");
    v("n_heads", n_heads, {1, 65536}, "attention heads; must divide d_model");
    v("n_kv_heads", n_kv_heads, {0, 65536}, "key and value heads of llama; must divide n_heads; 0: equal to it");
    v("d_ff", d_ff, {0, 1 << 20}, "width of the feed-forward networks; 0 for 8/3 of d_model, of gpt2 4 times d_model");
    v("n_layers", n_layers, {0, 1000}, "layers");
    v("max_length", max_length, {1, 1 << 20}, "tokens that the model sees at once");
    v("dropout", dropout, {0, 1}, "dropout of each sublayer's output and of the embedded inputs");
    v("attention_dropout", attention_dropout, {0, 1}, "dropout of the attention weights");
    v("tokenizer", tokenizer, "folder with the files of a tokenizer; without one, tokens are bytes");
  }
  HfConfig config(int vocabulary) const {
    HfConfig made{.architecture = shape};
    set_architecture(shape, made.model);
    made.model.vocabulary = vocabulary;
    made.model.layer.d_model = d_model;
    made.model.layer.n_heads = n_heads;
    made.model.layer.n_kv_heads = n_kv_heads;
    made.model.layer.d_ff = d_ff > 0                       ? d_ff
                            : shape == Architecture::llama ? (8 * d_model / 3 + 7) / 8 * 8
                                                           : 4 * d_model;
    made.model.layer.dropout = dropout;
    made.model.layer.attention_dropout = attention_dropout;
    made.model.n_layers = n_layers;
    made.model.max_length = max_length;
    return made;
  }
  void validate() const {
    config(1).model.validate();
    seppo::check<seppo::ArgumentError>(shape == Architecture::llama || n_kv_heads == 0,
                                       "n_kv_heads is of llama; gpt2 has as many as n_heads");
  }
};

examples::Run run_with(double lr, int epochs) {
  return {.out = "runs/llm",
          .training = {.epochs = epochs,
                       .sampler = {.batch_size = 8, .epoch_steps = 100},
                       .trainer = {.lr = lr,
                                   .min_lr = lr / 10,
                                   .schedule = seppo::ScheduleKind::cosine,
                                   .warmup_steps = 20,
                                   .adam = {.betas = {0.9, 0.99}, .weight_decay = 0.1}}}};
}

void check_given(const std::filesystem::path& path, const char* option, const char* what) {
  if (path.empty()) throw UsageError(fmt::format("--{}: {} is needed", option, what));
}

// Was the run in this folder saved by `llm finetune`? `llm train --resume` resumes either kind.
bool is_finetuning(const std::string& folder) {
  if (folder.empty()) return false;
  const auto newest = seppo::newest_checkpoint(folder, [](const seppo::Error&) {});
  return newest && seppo::read_model_config(seppo::SafeTensorsFile(*newest)).contains("base");
}

}  // namespace

int train(const Arguments& arguments) {
  if (is_finetuning(examples::option_in(arguments, "resume", ""))) return finetune(arguments);
  constexpr const char* kAbout =
      "Trains a model from nothing to predict each next token of a text. What is kept is written to --out, and as a "
      "folder that Hugging Face's loaders read too, to --out/hf.";
  DataConfig data;
  ShapeConfig shape;
  examples::Run run = run_with(1e-3, 20);
  CommandLine line("llm train --data FILE [options]", kAbout);
  line.fields("data", data);
  line.fields("architecture", shape);  // "model" is already the key of the model's whole config
  line.must_exist("data");
  line.show({"data", "shape", "d-model", "layers", "max-length", "tokenizer"});
  run.add_to(line);
  if (!line.parse(arguments)) return 0;
  check_given(data.data, "data", "a text file");

  const Tokenizer tokenizer =
      shape.tokenizer.empty() ? seppo::byte_tokenizer() : read_tokenizer("tokenizer", shape.tokenizer);
  HfConfig config = shape.config(tokenizer.size());
  config.bos = tokenizer.bos ? tokenizer.bos : tokenizer.eos;
  if (tokenizer.eos) config.stops = {*tokenizer.eos};
  seppo::Parameters parameters(run.seed(), examples::most_values());
  LanguageModel model = examples::build<LanguageModel>(parameters, config.model);
  return run_training(line, run, data,
                      {.config = config,
                       .tokenizer = tokenizer,
                       .parameters = parameters,
                       .model = model,
                       .tokenizer_folder = shape.tokenizer},
                      kAbout);
}

namespace {

struct BaseConfig {
  std::filesystem::path model;
  void fields(seppo::ConfigVisitor& v) { v("model", model, "folder of the model to start from"); }
};

}  // namespace

int finetune(const Arguments& arguments) {
  constexpr const char* kAbout =
      "Trains a model of Hugging Face's on a text: all of it, or with --lora narrow adapters beside it, which are "
      "written to --out/adapter. The model that is kept, with the adapters merged, is written to --out/hf.";
  DataConfig data;
  BaseConfig base;
  seppo::LoraConfig lora;
  examples::Run run = run_with(3e-4, 5);
  CommandLine line("llm finetune --model DIR --data FILE [options]", kAbout);
  line.fields("data", data);
  line.fields("base", base);
  line.fields("lora", lora);
  line.must_exist("data");
  line.show({"data", "window", "model", "lora"});
  run.add_to(line);
  if (!line.parse(arguments)) return 0;
  check_given(base.model, "model", "the folder of a model");
  check_given(data.data, "data", "a text file");
  if (line.typed("lora-alpha") && lora.lora == 0) throw UsageError("--lora-alpha: needs --lora");
  if (!line.given("lr") && lora.lora > 0) run.training.trainer.lr = 3e-3;

  if (run.resume.empty()) check_apart("out", run.out, base.model);
  Folder folder = open_folder(base.model, run.seed());
  std::optional<Adapters> adapters;
  if (lora.lora > 0) adapters.emplace(*folder.parameters, folder.model, lora);
  return run_training(line, run, data,
                      {.config = folder.config,
                       .tokenizer = folder.tokenizer,
                       .parameters = *folder.parameters,
                       .model = folder.model,
                       .adapters = adapters ? &*adapters : nullptr,
                       .tokenizer_folder = folder.path},
                      kAbout);
}

}  // namespace llm
