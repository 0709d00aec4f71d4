// llm: generates and scores text with language models in Hugging Face's format, and trains them.
#include "app/run.h"
#include "llm/folder.h"
#include "llm/text_output.h"
#include "llm/train.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/lora.h>
#include <seppo/models/window_score.h>
#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

namespace llm {
namespace {

using examples::Arguments;
using examples::CommandLine;
using examples::UsageError;

// --model, --adapter and --threads.
struct Source {
  std::filesystem::path model = "runs/llm", adapter = {};
  int threads = 0;

  void fields(seppo::ConfigVisitor& v) {
    v("model", model, "folder with config.json, model.safetensors and a tokenizer, or --out of a training");
    v("adapter", adapter, "folder of adapters, to be merged into the model");
    v("threads", threads, {0, 256}, examples::kThreadsHelp);
  }
  Folder open() const {
    examples::use_threads(threads);
    Folder folder = open_folder(model);
    if (adapter.empty()) return folder;
    std::error_code error;  // there may be no such folder
    const std::filesystem::path opened = std::filesystem::canonical(folder.path);
    if (opened.filename() == "hf" && std::filesystem::equivalent(adapter, opened.parent_path() / "adapter", error))
      throw UsageError(fmt::format("--adapter: '{}' is merged already into the model in '{}'",
                                   seppo::printable_path(adapter), seppo::printable_path(folder.path)));
    const seppo::Adapters adapters = adapters_for(folder, seppo::Adapters::read_config(adapter));
    adapters.load(adapter);
    adapters.merge();
    return folder;
  }
  seppo::Adapters adapters_for(Folder& folder, const seppo::LoraConfig& config) const {
    try {
      return seppo::Adapters(*folder.parameters, folder.model, config);
    } catch (const seppo::ArgumentError& e) {
      seppo::fail<seppo::FormatError>(seppo::printable_path(adapter / "adapter.json"), ": ", e.what());
    }
  }
};

// --prompt and --prompt-file.
struct Prompt {
  std::string text = {};
  std::filesystem::path file = {};

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
  seppo::GenerateOptions options{.max_tokens = 256, .sampling = {.temperature = 0.8}};
  CommandLine line(
      "llm generate --model DIR [options]",
      "Continues a text. Standard output has the prompt and what follows it, as it is written, and nothing "
      "else; the end is where the model ends its text, or after --max-tokens. A terminal is shown control characters "
      "as "
      "\\xNN.");
  source.fields(line);
  prompt.fields(line);
  line("bos", bos, kBosHelp);
  line("max_tokens", options.max_tokens, {0, 1e9}, "tokens to write at most");
  line("temperature", options.sampling.temperature, {0, 100},
       "below 1 sharpens the distribution, above 1 flattens it; 0 takes the most probable token");
  line("top_k", options.sampling.top_k, {0, 1e6}, "draw among the k most probable tokens only; 0 for all");
  line("top_p", options.sampling.top_p, {1e-6, 1}, "draw among the most probable that together have this probability");
  line("min_p", options.sampling.min_p, {0, 1}, "draw among tokens that have this share of the best one's probability");
  line("repetition_penalty", options.sampling.repetition_penalty, {1e-3, 1e3},
       "above 1, makes tokens that already occur in the text less probable");
  line("seed", options.seed, "random seed for sampling");
  if (!line.parse(arguments)) return 0;

  const std::string text = prompt.read();
  const Folder folder = source.open();
  std::vector<int> tokens = folder.encode(text, bos);
  if (tokens.empty()) throw UsageError("--prompt: is empty, and the model does not say how a text begins");
  seppo::Ragged start;
  start.add(tokens);
  options.stop = folder.config.stops;
  // When the window is full, its second half is kept.
  options.stride = std::max(1, folder.model.config.max_length / 2);
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  TextOutput output(std::cout, is_terminal);
  output.write(text);
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> begin;  // the time of the first token, so that the rate excludes the prompt
  int written = 0;
  generate(folder.model, start, options, [&](std::size_t, int token) {
    begin ? ++written : (begin = Clock::now(), 0);
    if (std::ranges::find(folder.config.stops, token) != folder.config.stops.end()) return;
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
  std::filesystem::path data;
  int window = 0, stride = 0;
  seppo::Bos bos = seppo::Bos::tokenizer;
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
  line("json", as_json, examples::kJsonHelp);
  line.must_exist("data");
  if (!line.parse(arguments)) return 0;
  if (data.empty()) throw UsageError("--data: a text file is needed");

  const Folder folder = source.open();
  const int most = folder.model.config.max_length;
  if (window == 0) window = most;
  if (stride == 0) stride = std::max(1, window / 2);
  if (window > most)
    throw UsageError(fmt::format("--window: {} is more than the model sees at once, {}", window, most));
  if (stride > window) throw UsageError(fmt::format("--stride: {} is more than a window, {}", stride, window));
  const std::vector<int> tokens = folder.encode(seppo::read_text(data), bos);
  seppo::check<seppo::FormatError>(tokens.size() > 1, seppo::printable_path(data), ": there is nothing to predict");
  const seppo::WindowScore now = seppo::score_windows([&] { return folder.model; }, tokens, window, stride);
  const std::size_t bytes = folder.tokenizer.decode(tokens, 1).size();
  std::cout << fmt::format("{} tokens of {} bytes\n{:.4f} bits a byte, {:.4f} nats a token, perplexity {:.4f}\n",
                           now.tokens, bytes, now.bits_per(bytes), now.loss(), now.perplexity());
  if (as_json)
    std::cout << nlohmann::json{{"bits_per_byte", now.bits_per(bytes)},
                                {"loss", now.loss()},
                                {"perplexity", now.perplexity()},
                                {"tokens", now.tokens},
                                {"bytes", bytes}}
                     .dump()
              << "\n";
  return 0;
}

int merge(const Arguments& arguments) {
  Source source;
  std::filesystem::path out;
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
    throw UsageError(fmt::format("--out: '{}' has a model; --overwrite replaces it", seppo::printable_path(out)));
  const Folder folder = source.open();
  write_folder(out, folder.config, *folder.parameters, folder.path);
  return 0;
}

}  // namespace
}  // namespace llm

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv,
                                "llm: generates and scores text with LLaMA and GPT-2 language models, and trains them.",
                                {{"generate", "continue a text", llm::write_text},
                                 {"eval", "score a text", llm::eval},
                                 {"finetune", "train a model further, all of it or adapters", llm::finetune},
                                 {"merge", "write a model with its adapters merged", llm::merge},
                                 {"train", "train a model from scratch", llm::train}});
}
