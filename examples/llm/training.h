// Training on a text: from scratch, or from another model, all of it or adapters. Each model that is kept is also
// written in Hugging Face's format, to hf/, and adapters without the model to adapter/.
#pragma once

#include "app/memory.h"
#include "app/paths.h"
#include "app/program.h"
#include "llm/conversations.h"
#include "llm/documents.h"
#include "llm/folder.h"
#include "llm/windows.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/models/hugging_face/peft.h>
#include <seppo/models/lora.h>
#include <seppo/models/window_score.h>
#include <seppo/nn/io/replace_folder.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/run/data_digest.h>
#include <seppo/nn/text/byte_level_bpe.h>

#include <fmt/format.h>

#include <iostream>
#include <optional>

namespace llm {

using seppo::Adapters;
using seppo::Architecture;

struct DataConfig {
  std::filesystem::path data;
  double train_share = 0.9;
  int window = 0;
  seppo::Bos bos = seppo::Bos::tokenizer;
  bool checkpoint_activations = false;
  bool special_tokens = false;
  bool chat = false;
  LossOn loss_on = LossOn::all;
  std::string separator = {};

  void fields(seppo::ConfigVisitor& v) {
    v("data", data, "the text, UTF-8");
    v("train_share", train_share, {0.01, 0.99},
      "share of the text to train on, from its beginning; the rest is for validation");
    v("window", window, {0, 1 << 20}, "tokens per example; 0 for the model's context length");
    v("bos", bos, kBosHelp, {.may_be_missing = true});
    v("checkpoint_activations", checkpoint_activations,
      "keep only the input of each layer, and compute the rest again in backward: less memory, more time, same bytes",
      {.may_be_missing = true});
    v("special_tokens", special_tokens, kSpecialHelp, {.may_be_missing = true});
    v("chat", chat, "the data are conversations, JSON Lines of {\"messages\": [{\"role\": ..., \"content\": ...}]}",
      {.may_be_missing = true});
    v("loss_on", loss_on, "what of conversations is learnt: all, or the assistant's answers", {.may_be_missing = true});
    v("separator", separator, "line between documents, each of which then ends with the token for the end of a text",
      {.may_be_missing = true});
  }
};

// How the model that is kept is written to hf/.
struct ExportConfig {
  Dtype dtype = Dtype::same;

  void fields(seppo::ConfigVisitor& v) { v("dtype", dtype, kDtypeHelp, {.may_be_missing = true}); }
};

// The data of a training: a text, its documents, or conversations. Throws examples::UsageError for options that do not
// go together; as Folder::encode(), encode_documents() and read_conversations() do.
inline Text read_data(const DataConfig& source, const Folder& folder) {
  if (source.loss_on != LossOn::all && !source.chat) throw app::UsageError("--loss-on: needs --chat");
  if (source.chat && !source.separator.empty()) throw app::UsageError("--separator: cannot be given with --chat");
  if (source.chat) return read_conversations(source.data, folder, source.loss_on);
  return {encode_documents(folder, seppo::read_text(source.data), source.separator, source.bos,
                           special_text(source.special_tokens))};
}

inline std::string digest_of(const Windows& training, const Windows& validation) {
  if (training.targets.empty()) return seppo::digest_of(training.tokens, validation.tokens);
  return seppo::digest_of(training.tokens, validation.tokens, training.targets, validation.targets);
}

inline std::string summary_of(const Windows& training, const Windows& validation) {
  const std::string all =
      fmt::format("{} training and {} validation tokens", training.tokens.size(), validation.tokens.size());
  if (training.targets.empty()) return all;
  return fmt::format("{}, {} and {} of them in answers", all, training.predicted().size(),
                     validation.predicted().size());
}

inline app::TrainingConfig recipe(double lr, int epochs) {
  return {.epochs = epochs,
          .sampler = {.batch_size = 8, .epoch_steps = 100},
          .trainer = {.lr = lr,
                      .min_lr = lr / 10,
                      .schedule = seppo::ScheduleKind::cosine,
                      .warmup_steps = 20,
                      .adam = {.betas = {0.9, 0.99}, .weight_decay = 0.1}}};
}

// What Pretraining and Finetuning have in common: all but where the model comes from.
struct TextTraining {
  using Model = seppo::LanguageModel;
  using Examples = Windows;

  DataConfig source = {};
  ExportConfig written = {};
  app::TrainingConfig training;
  std::optional<Folder> folder = {};      // the model and its tokenizer: begin() sets these three
  std::optional<Adapters> adapters = {};  // if they are trained, and not the model
  std::optional<Model> with_adapters = {};

  void options(app::CommandLine& line, const app::Arguments&) {
    line.must_exist("data");
    line.needs("data", "a text file");
  }

  // A template says how a conversation begins, and what spells a special token there is one.
  void check_chat(const app::CommandLine& line) const {
    for (const std::string option : {"bos", "special-tokens"})
      if (source.chat && line.typed(option)) throw app::UsageError("--" + option + ": cannot be given with --chat");
  }

  Folder& pretrained() { return *folder; }

  std::string title() const { return "seppo: " + source.data.filename().string(); }

  app::Data<Windows> data() const {
    const int window = window_length(source.window, folder->config.model.max_length);
    const Text text = read_data(source, *folder);
    const auto cut = static_cast<std::size_t>(source.train_share * static_cast<double>(text.tokens.size()));
    const Windows train(text.part(0, cut), window, 1);
    const Windows validation(text.part(cut, text.tokens.size()), window, window);
    const std::size_t trained = train.tokens.size(), validated = validation.tokens.size();
    seppo::check<seppo::FormatError>(std::ssize(train.tokens) > window && validated > 1,
                                     seppo::printable_path(source.data), ": tokens are too few: training has ", trained,
                                     ", more than the window's ", window, " are needed, and validation has ", validated,
                                     " of at least 2");
    seppo::check<seppo::FormatError>(train.size() > 0 && validation.size() > 0, seppo::printable_path(source.data),
                                     ": answers are too few: training has ", train.predicted().size(),
                                     ", and validation ", validation.predicted().size());
    return {.training = train,
            .validation = validation,
            .summary = summary_of(train, validation),
            .digest = digest_of(train, validation),
            .next = source.chat ? "chat" : ""};
  }

  const Model& adapted(const Model& model) const { return with_adapters ? *with_adapters : model; }

  seppo::ShardLoss loss(const Model& model, const Windows::Batch& batch) const {
    return seppo::window_loss(adapted(model), batch.tokens, batch.starts, batch.length, batch.targets);
  }

  app::Evaluation evaluate(const Model& model, const Windows& text) const {
    const bool has_all = text.targets.empty();
    const seppo::Tokenizer& tokenizer = folder->tokenizer;
    const std::size_t bytes =
        has_all ? tokenizer.decode(text.tokens, 1).size() : tokenizer.decode(text.predicted()).size();
    const auto now =
        seppo::score_windows([&] { return adapted(model); }, text.tokens, text.length, text.stride, text.targets);
    return {now.loss(), {{"bits_per_byte", now.bits_per(std::max<std::size_t>(1, bytes))}}};
  }

  void print(const nlohmann::json& summary, const std::string& part, std::size_t) const {
    const double loss = summary[part + "_loss"], bits = summary[part + "_bits_per_byte"];
    std::cout << fmt::format("validation   {:.4f} nats a token, {:.4f} bits a byte\n", loss, bits);
  }

  // Pieces of the validation text, each continued by the model.
  std::vector<app::Sample> samples(const Model& model, const app::Data<Windows>& data) const {
    constexpr std::size_t kSamples = 4;
    const seppo::Inference guard;
    const std::span<const int> tokens = data.validation.tokens;
    const std::size_t length = std::min<std::size_t>(16, tokens.size());
    std::vector<app::Sample> samples;
    for (std::size_t i = 0; i < kSamples; ++i) {
      seppo::Ragged piece;
      piece.add(tokens.subspan((tokens.size() - length) / kSamples * i, length));
      const auto written =
          generate(adapted(model), piece, {.max_tokens = 48, .sampling = {.temperature = 0.8}, .seed = i});
      app::Sample& sample = samples.emplace_back();
      sample.input = folder->tokenizer.decode(piece.tokens);
      sample.output = folder->tokenizer.decode(written[0]);
    }
    return samples;
  }

  void save(const std::filesystem::path& out) const {
    if (adapters)
      save_adapters(out / "adapter");
    else
      remove_adapters(out / "adapter");
    const seppo::ValuesOf values = adapters ? adapters->merged() : nullptr;
    const seppo::WeightType type = stored_as(written.dtype, folder->type);
    write_folder(out / "hf", folder->config, *folder->parameters, folder->texts, values, type);
  }

  // Replaces those that are there, of whatever format.
  void save_adapters(const std::filesystem::path& path) const {
    app::prepare_folder("out", path);
    const auto write = [&](const std::filesystem::path& made) {
      const bool has_name = !seppo::is_gguf(folder->path);  // peft opens no such file
      seppo::save_peft(made, *adapters, folder->config, has_name ? folder->path.string() : "");
    };
    seppo::replace_folder(path, write, seppo::is_adapter_file);
  }

  // An earlier run's, which fit another model.
  static void remove_adapters(const std::filesystem::path& path) {
    if (!std::filesystem::is_directory(path)) return;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (seppo::is_adapter_file(entry.path().filename().string())) std::filesystem::remove(entry.path());
  }

  // The weights beside adapters are those of the model that the run begins with, and begins with again to go on.
  seppo::FrozenValues frozen() const { return adapters ? seppo::FrozenValues::digested : seppo::FrozenValues::saved; }

  std::string row(const Windows& text, std::size_t i) const {
    return fmt::format("{}\n  {}", app::shown_line(folder->tokenizer.decode(text[i])), fmt::join(text[i], " "));
  }
};

// ---- from scratch

constexpr const char* kTokenizerHelp = "folder with the files of a tokenizer; without one, tokens are bytes";

struct ShapeConfig {
  Architecture shape = Architecture::llama;
  seppo::LanguageModelConfig model = {
      .layer = {.d_model = 128, .n_heads = 4, .d_ff = 0, .dropout = 0}, .n_layers = 4, .max_length = 256};
  std::filesystem::path tokenizer;

  void fields(seppo::ConfigVisitor& v) {
    seppo::LayerConfig& layer = model.layer;
    v("shape", shape, "family of the model");
    v("d_model", layer.d_model, {1, 65536}, "width of the model");
    v("n_heads", layer.n_heads, {1, 65536}, "attention heads; must divide d_model");
    v("n_kv_heads", layer.n_kv_heads, {0, 65536},
      "key and value heads, of shapes that have fewer; must divide n_heads; 0: equal");
    v("head_width", layer.head_width, {0, 65536}, "columns of an attention head; 0: d_model / n_heads",
      {.may_be_missing = true});
    v("d_ff", layer.d_ff, {0, 1 << 20},
      "width of the feed-forward networks; 0 for 8/3 of d_model, without a gate 4 times d_model");
    v("n_layers", model.n_layers, {0, 1000}, "layers");
    v("max_length", model.max_length, {1, 1 << 20}, "tokens that the model sees at once");
    v("dropout", layer.dropout, {0, 1}, "dropout of each sublayer's output and of the embedded inputs");
    v("attention_dropout", layer.attention_dropout, {0, 1}, "dropout of the attention weights");
    v("tokenizer", tokenizer, kTokenizerHelp);
  }
  void validate() const {
    const seppo::LayerConfig& layer = model.layer;
    model.validate();
    // Whatever the width of a head, Hugging Face's loaders ask for this of some.
    const bool must_divide =
        shape == Architecture::llama || shape == Architecture::gemma2 || shape == Architecture::gemma3_text;
    seppo::check<seppo::ArgumentError>(!must_divide || layer.d_model % layer.n_heads == 0, "d_model ", layer.d_model,
                                       " is not a multiple of n_heads ", layer.n_heads);
    seppo::check<seppo::ArgumentError>(
        shape != Architecture::bloom || layer.d_ff == 0 || layer.d_ff == 4 * layer.d_model, "d_ff of bloom is ",
        layer.d_ff, ", not four times d_model");
    seppo::check<seppo::ArgumentError>(layer.n_kv_heads == 0 || has_kv_heads(shape), "n_kv_heads is not of ",
                                       enum_names(shape)[static_cast<std::size_t>(shape)],
                                       ", which has as many as n_heads");
    seppo::check<seppo::ArgumentError>(layer.head_width == 0 || has_head_width(shape), "head_width is not of ",
                                       enum_names(shape)[static_cast<std::size_t>(shape)],
                                       ", whose heads are d_model / n_heads wide");
  }
  // The model for texts of this tokenizer.
  seppo::HfConfig config(const seppo::Tokenizer& texts) const {
    seppo::HfConfig made{.architecture = shape, .model = model, .bos = texts.bos ? texts.bos : texts.eos};
    set_architecture(shape, made.model);
    made.model.vocabulary = texts.size();
    if (texts.eos) made.stops = {*texts.eos};
    const int d_model = model.layer.d_model;
    const bool has_gate = made.model.layer.activation >= seppo::Activation::swiglu;
    if (model.layer.d_ff == 0) made.model.layer.d_ff = has_gate ? (8 * d_model / 3 + 7) / 8 * 8 : 4 * d_model;
    return made;
  }
};

struct Pretraining : TextTraining {
  ShapeConfig architecture = {};

  Pretraining() : TextTraining{.training = recipe(1e-3, 20)} {}

  static app::About about() {
    return {.name = "llm",
            .summary = "generates and scores text with LLaMA and GPT-2 language models, and trains them.",
            .task =
                "Trains a model from nothing to predict each next token of a text. What is kept is written to --out, "
                "and as a folder that Hugging Face's loaders read too, to --out/hf.",
            .usage = "train --data FILE [options]",
            .shown = {"data", "shape", "d-model", "layers", "max-length", "tokenizer"},
            .next = "generate --max-tokens 200",
            .rows = "windows",
            .chunk = 8};
  }

  static std::vector<app::Command> commands();

  void parts(const auto& part) {
    part("data", source);
    part("export", written);
    part("architecture", architecture);  // "model" is the key of the model's whole config
  }

  void settle(const app::CommandLine& line) {
    check_chat(line);
    if (line.typed("out") && !architecture.tokenizer.empty())
      check_apart("out", line.path("out"), architecture.tokenizer);
  }

  void begin() {
    const std::filesystem::path& path = architecture.tokenizer;
    seppo::Tokenizer tokenizer = path.empty() ? seppo::byte_tokenizer() : read_tokenizer("tokenizer", path);
    const seppo::HfConfig config = architecture.config(tokenizer);
    auto parameters = std::make_unique<seppo::Parameters>(training.trainer.seed, app::most_values());
    Model model = app::build<Model>(*parameters, config.model);
    const std::filesystem::path none;
    seppo::Pretrained untrained{none, config, std::move(parameters), std::move(model)};
    folder.emplace(Folder{std::move(untrained), std::move(tokenizer), path});
    folder->model.layers.checkpoints = source.checkpoint_activations;
  }

  void data_options(app::CommandLine& line, const app::Arguments& arguments) {
    source.fields(line);
    line("tokenizer", architecture.tokenizer, kTokenizerHelp);
    options(line, arguments);
    line.check([&] {
      if (line.typed("checkpoint-activations"))
        throw app::UsageError("--checkpoint-activations: nothing is trained here");
      architecture.model.max_length = std::max(architecture.model.max_length, source.window);  // of no model yet
    });
  }
  Windows all() const {
    const Windows text = data().training;
    return {Text{text}, text.length, text.length};
  }
};

// ---- from another model

struct BaseConfig {
  std::filesystem::path model;
  void fields(seppo::ConfigVisitor& v) { v("model", model, "folder of the model to start from, or GGUF file"); }
};

struct Finetuning : TextTraining {
  BaseConfig base = {};
  seppo::LoraConfig lora = {};

  Finetuning() : TextTraining{.training = recipe(3e-4, 5)} {}

  static app::About about() {
    app::About about = Pretraining::about();
    about.task =
        "Trains a model of Hugging Face's on a text: all of it, or with --lora narrow adapters beside it, which are "
        "written to --out/adapter. The model that is kept, with the adapters merged, is written to --out/hf.";
    about.usage = "finetune --model DIR --data FILE [options]";
    about.shown = {"data", "window", "model", "lora"};
    return about;
  }

  void options(app::CommandLine& line, const app::Arguments& arguments) {
    line.needs("model", "the folder of a model, or a GGUF file");
    TextTraining::options(line, arguments);
  }

  void parts(const auto& part) {
    part("data", source);
    part("export", written);
    part("base", base);
    part("lora", lora);
  }

  void settle(const app::CommandLine& line) {
    check_chat(line);
    for (const std::string option : {"lora-alpha", "rslora"})
      if (line.typed(option) && lora.lora == 0) throw app::UsageError("--" + option + ": needs --lora");
    if (!line.given("lr") && lora.lora > 0) training.trainer.lr = 3e-3;
    if (line.path("resume").empty() || line.typed("out")) check_apart("out", line.path("out"), base.model);
  }

  void begin() {
    folder.emplace(open_folder(base.model, training.trainer.seed));
    folder->model.layers.checkpoints = source.checkpoint_activations;
    if (lora.lora == 0) return;
    adapters.emplace(*folder->parameters, folder->model, lora);
    with_adapters.emplace(adapters->apply());
  }
};

}  // namespace llm
