// llm: language models in Hugging Face's format write and score texts, and are trained on them.
#include "app/run_program.h"
#include "app/sampling.h"
#include "llm/text_output.h"
#include "llm/training.h"

#include <seppo/nn/run/run_folder.h>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

namespace llm {

namespace fs = std::filesystem;
using app::Arguments;
using app::CommandLine;
using app::UsageError;
using seppo::printable_path;

namespace {

// --model, --adapter and --threads.
struct Source {
  fs::path model = "runs/llm", adapter = {};
  int threads = 0;

  void fields(seppo::ConfigVisitor& v) {
    v("model", model, "folder with config.json, model.safetensors and a tokenizer, or --out of a training");
    v("adapter", adapter, "folder of adapters, to be merged into the model");
    v("threads", threads, {0, 256}, app::kThreadsHelp);
  }
  Folder open() const {
    app::use_threads(threads);
    Folder folder = open_folder(model);
    if (adapter.empty()) return folder;
    std::error_code error;  // there may be no such folder
    const fs::path opened = fs::canonical(folder.path);
    if (opened.filename() == "hf" && fs::equivalent(adapter, opened.parent_path() / "adapter", error))
      throw UsageError(fmt::format("--adapter: '{}' is merged already into the model in '{}'", printable_path(adapter),
                                   printable_path(folder.path)));
    seppo::Adapters::read(adapter, *folder.parameters, folder.model).merge();
    return folder;
  }
};

// --prompt and --prompt-file.
struct Prompt {
  std::string text = {};
  fs::path file = {};

  void fields(seppo::ConfigVisitor& v) {
    v("prompt", text, "what to continue; without it, the model begins");
    v("prompt_file", file, "file of what to continue, all of it, the end of the last line too; - for standard input");
  }
  std::string read() const {
    if (!text.empty() && !file.empty()) throw UsageError("--prompt-file: cannot be given together with --prompt");
    if (file.empty()) return text;
    if (file != "-") return seppo::read_text(file);
    std::string all;
    seppo::TextReader input;
    for (std::string_view piece = input.next(); !piece.empty(); piece = input.next()) all += piece;
    return all;
  }
};

int write_text(const Arguments& arguments) {
  Source source;
  Prompt prompt;
  seppo::Bos bos = seppo::Bos::tokenizer;
  bool has_special = false;
  seppo::GenerateOptions options{.max_tokens = 256, .sampling = {.temperature = 0.8}};
  CommandLine line("llm generate --model DIR [options]",
                   "Continues a text. Standard output has the prompt and what follows it, as it is written, and "
                   "nothing else; the end is where the model ends its text, or after --max-tokens. A terminal is shown "
                   "control characters as \\xNN.");
  source.fields(line);
  prompt.fields(line);
  line("bos", bos, kBosHelp);
  line("special_tokens", has_special, kSpecialHelp);
  line("max_tokens", options.max_tokens, {0, 1e9}, "tokens to write at most");
  app::add_sampling(line, options.sampling, "token");
  line("seed", options.seed, "random seed for sampling");
  if (!line.parse(arguments)) return 0;

  const std::string text = prompt.read();
  const Folder folder = source.open();
  std::vector<int> tokens = folder.encode(text, bos, special_text(has_special));
  if (tokens.empty()) throw UsageError("--prompt: is empty, and the model does not say how a text begins");
  seppo::Ragged start;
  start.add(tokens);
  options.stop = folder.config.stops;
  options.stride = std::max(1, folder.model.config.max_length / 2);  // of a full window, the second half is kept
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  TextOutput output(std::cout, is_terminal);
  output.write(text);
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> begin;  // the time of the first token, so that the rate excludes the prompt
  int written = 0;
  generate(folder.model, start, options, [&](std::size_t, int token) {
    begin ? ++written : (begin = Clock::now(), 0);
    if (std::ranges::find(options.stop, token) != options.stop.end()) return;
    tokens.push_back(token);
    output.write(folder.tokenizer.decode(tokens, tokens.size() - 1));
  });
  output.finish();
  if (is_terminal) std::cout << "\n";
  const std::chrono::duration<double> seconds = begin ? Clock::now() - *begin : Clock::duration::zero();
  if (written > 0) std::cerr << fmt::format("{:.0f} tokens a second\n", written / seconds.count());
  return 0;
}

int eval(const Arguments& arguments) {
  Source source;
  fs::path data;
  int window = 0, stride = 0;
  seppo::Bos bos = seppo::Bos::tokenizer;
  bool has_special = false;
  bool as_json = false;
  CommandLine line("llm eval --model DIR --data FILE [options]",
                   "How well a model predicts a text. Its tokens are seen through windows; each token is predicted "
                   "once, in the first window that has it, after at least window - stride others. Bits per byte do "
                   "not depend on the tokenizer, perplexity does.");
  source.fields(line);
  line("data", data, "the text, UTF-8");
  line("window", window, {0, 1 << 20}, "tokens per window; 0 for the model's context length");
  line("stride", stride, {0, 1 << 20}, "tokens from one window's beginning to the next; 0 for half a window");
  line("bos", bos, kBosHelp);
  line("special_tokens", has_special, kSpecialHelp);
  line("json", as_json, app::kJsonHelp);
  line.must_exist("data");
  line.needs("data", "a text file");
  if (!line.parse(arguments)) return 0;

  const Folder folder = source.open();
  window = window_length(window, folder.model.config.max_length);
  if (stride == 0) stride = std::max(1, window / 2);
  if (stride > window) throw UsageError(fmt::format("--stride: {} is more than a window, {}", stride, window));
  const std::vector<int> tokens = folder.encode(seppo::read_text(data), bos, special_text(has_special));
  seppo::check<seppo::FormatError>(tokens.size() > 1, printable_path(data), ": there is nothing to predict");
  const seppo::WindowScore now = seppo::score_windows([&] { return folder.model; }, tokens, window, stride);
  const std::size_t bytes = folder.tokenizer.decode(tokens, 1).size();
  std::cout << fmt::format("{} tokens of {} bytes\n{:.4f} bits a byte, {:.4f} nats a token, perplexity {:.4f}\n",
                           now.tokens, bytes, now.bits_per(bytes), now.loss(), now.perplexity());
  const nlohmann::json summary{{"bits_per_byte", now.bits_per(bytes)},
                               {"loss", now.loss()},
                               {"perplexity", now.perplexity()},
                               {"tokens", now.tokens},
                               {"bytes", bytes}};
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int merge(const Arguments& arguments) {
  Source source;
  fs::path out;
  bool overwrite = false;
  CommandLine line("llm merge --model DIR --adapter DIR --out DIR",
                   "Writes a model with adapters merged as a folder that Hugging Face's loaders read.");
  source.fields(line);
  line("out", out, "folder for config.json, model.safetensors and the tokenizer");
  line("overwrite", overwrite, "replace a model that is there");
  if (!line.parse(arguments)) return 0;
  if (out.empty() || source.adapter.empty()) throw UsageError("--out and --adapter are needed");
  check_apart("out", out, source.model);
  if (seppo::has_model(out) && !overwrite)
    throw UsageError(fmt::format("--out: '{}' has a model; --overwrite replaces it", printable_path(out)));
  const Folder folder = source.open();
  write_folder(out, folder.config, *folder.parameters, folder.path);
  return 0;
}

// Was the run in this folder saved by `llm finetune`?
bool is_finetuning(const std::string& folder) {
  if (folder.empty()) return false;
  const auto newest = seppo::newest_checkpoint(folder, [](const seppo::Error&) {});
  return newest && seppo::read_model_config(seppo::SafeTensorsFile(*newest)).contains("base");
}

// `llm train --resume` resumes either kind.
int train(const Arguments& arguments) {
  if (is_finetuning(app::option_in(arguments, "resume", ""))) return app::train<Finetuning>(arguments);
  return app::train<Pretraining>(arguments);
}

}  // namespace

std::vector<app::Command> Pretraining::commands() {
  return {{"train", "train a model from scratch", train},
          {"finetune", "train a model further, all of it or adapters", app::train<Finetuning>},
          {"merge", "write a model with its adapters merged", merge},
          {"eval", "score a text", eval},
          {"generate", "continue a text", write_text}};
}

}  // namespace llm

int main(int argc, char** argv) { return app::run<llm::Pretraining>(argc, argv); }
