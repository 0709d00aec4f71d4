// llm: language models in Hugging Face's format write and score texts, and are trained on them.
#include "app/run_program.h"
#include "llm/chat.h"
#include "llm/export.h"
#include "llm/generate.h"
#include "llm/source.h"
#include "llm/training.h"

#include <seppo/nn/run/run_folder.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

namespace llm {

namespace fs = std::filesystem;
using app::Arguments;
using app::CommandLine;
using app::UsageError;
using seppo::printable_path;

namespace {

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
  source.weights_field(line);
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
  Dtype dtype = Dtype::same;
  CommandLine line("llm merge --model DIR --adapter DIR --out DIR",
                   "Writes a model with adapters merged as a folder that Hugging Face's loaders read.");
  source.fields(line);
  line("out", out, "folder for config.json, model.safetensors and the tokenizer");
  line("overwrite", overwrite, "replace a model that is there");
  line("dtype", dtype, kDtypeHelp);
  if (!line.parse(arguments)) return 0;
  if (out.empty() || source.adapter.empty()) throw UsageError("--out and --adapter are needed");
  check_apart("out", out, source.model);
  if (seppo::has_model(out) && !overwrite)
    throw UsageError(fmt::format("--out: '{}' has a model; --overwrite replaces it", printable_path(out)));
  const Folder folder = source.open();
  write_folder(out, folder.config, *folder.parameters, folder.texts, nullptr, stored_as(dtype, folder.type));
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
          {"export", "write a model for other tools", export_model},
          {"generate", "continue a text", generate_text},
          {"chat", "talk to a model", chat}};
}

}  // namespace llm

int main(int argc, char** argv) { return app::run<llm::Pretraining>(argc, argv); }
