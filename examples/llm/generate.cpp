// Continues a prompt, token by token.
#include "llm/generate.h"

#include "app/run.h"
#include "llm/source.h"
#include "llm/text_output.h"
#include "llm/writing.h"

#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace llm {

namespace fs = std::filesystem;
using examples::UsageError;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

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

// Tells how fast tokens come after the first, which waits for the prompt.
class Rate {
 public:
  void count() {
    end_ = Clock::now();
    if (!begin_) begin_ = end_;
    ++tokens_;
  }
  void tell() const {
    if (tokens_ < 2) return;
    const std::chrono::duration<double> seconds = end_ - *begin_;
    std::cerr << fmt::format("{:.0f} tokens a second\n", (tokens_ - 1) / seconds.count());
  }

 private:
  std::optional<Clock::time_point> begin_;
  Clock::time_point end_;
  int tokens_ = 0;
};

// Writes what follows the tokens to the output, and adds it to them.
void continue_text(const Folder& folder, const seppo::GenerateOptions& options, TextOutput& output,
                   std::vector<int>& tokens) {
  seppo::Ragged start;
  start.add(tokens);
  Rate rate;
  generate(folder.model, start, options, [&](std::size_t, int token) {
    rate.count();
    if (std::ranges::find(options.stop, token) != options.stop.end()) return;
    tokens.push_back(token);
    output.write(folder.tokenizer.decode(tokens, tokens.size() - 1));
  });
  output.finish();
  rate.tell();
}

}  // namespace

int generate_text(const examples::Arguments& arguments) {
  Source source;
  Prompt prompt;
  Writing writing;
  seppo::Bos bos = seppo::Bos::tokenizer;
  bool has_special = false;
  bool as_json = false;
  examples::CommandLine line(
      "llm generate --model DIR [options]",
      "Continues a text. Standard output has the prompt and what follows it, as it is written, and nothing else; the "
      "end is where the model ends its text, or after --max-tokens. Options that are not given are those of the "
      "model's generation_config.json, if it has them. A terminal is shown control characters as \\xNN.");
  source.fields(line);
  source.weights_field(line);
  prompt.fields(line);
  line("bos", bos, kBosHelp);
  line("special_tokens", has_special, kSpecialHelp);
  writing.add_to(line);
  line("json", as_json, "also print the text, and where each option comes from, as one JSON object, the last line");
  if (!line.parse(arguments)) return 0;

  const std::string text = prompt.read();
  const Folder folder = source.open();
  warn_of_what_is_not_done(folder);
  std::vector<int> tokens = folder.encode(text, bos, special_text(has_special));
  if (tokens.empty()) throw UsageError("--prompt: is empty, and the model does not say how a text begins");
  const std::size_t given = tokens.size();
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  TextOutput output(std::cout, is_terminal);
  output.write(text);
  continue_text(folder, writing.options(line, folder, given), output, tokens);
  if (is_terminal || as_json) std::cout << "\n";
  if (!as_json) return 0;
  const json summary{{"prompt", text},
                     {"text", folder.tokenizer.decode(tokens, given)},
                     {"tokens", tokens.size() - given},
                     {"options", writing.sources()},
                     {"not_done", folder.generation.not_done}};
  std::cout << summary.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
  return 0;
}

}  // namespace llm
