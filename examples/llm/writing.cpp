// Each option once: what it is, and where that comes from.
#include "llm/writing.h"

#include "app/sampling.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/models/gguf/gguf_model.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <string>

namespace llm {

using examples::CommandLine;

namespace {

constexpr const char* kFile = "generation_config.json";

// How many tokens the file allows.
std::optional<int> max_tokens(const seppo::GenerationConfig& file, std::size_t prompt) {
  if (file.max_tokens || !file.max_length) return file.max_tokens;
  return std::max(0, *file.max_length - static_cast<int>(prompt));
}

}  // namespace

void Writing::add_to(CommandLine& line) {
  line("max_tokens", options_.max_tokens, {0, 1e9}, "tokens to write at most");
  examples::add_sampling(line, options_.sampling, "token");
  line("seed", options_.seed, "random seed for sampling");
}

template <class T>
void Writing::settle(const CommandLine& line, const char* option, T& value, const std::optional<T>& in_file) {
  const char* from = "default";
  if (line.given(option)) {
    from = "command line";
  } else if (in_file) {
    from = kFile;
    value = *in_file;
  }
  std::string key = option;
  std::ranges::replace(key, '-', '_');
  sources_[key] = {{"value", value}, {"from", from}};
}

seppo::GenerateOptions Writing::options(const CommandLine& line, const Folder& folder, std::size_t prompt) {
  const seppo::GenerationConfig& file = folder.generation;
  seppo::SamplingOptions& sampling = options_.sampling;
  settle(line, "max-tokens", options_.max_tokens, max_tokens(file, prompt));
  settle(line, "temperature", sampling.temperature, file.temperature);
  settle(line, "top-k", sampling.top_k, file.top_k);
  settle(line, "top-p", sampling.top_p, file.top_p);
  settle(line, "min-p", sampling.min_p, file.min_p);
  settle(line, "repetition-penalty", sampling.repetition_penalty, file.repetition_penalty);
  options_.stop = folder.config.stops;
  const char* const of_model = seppo::is_gguf(folder.path) ? "metadata" : "config.json";
  sources_["stop"] = {{"value", options_.stop}, {"from", file.stops ? kFile : of_model}};
  options_.stride = std::max(1, folder.model.config.max_length / 2);  // of a full window, the second half is kept
  options_.hook = file.hook(options_.stop, prompt);
  return options_;
}

void warn_of_what_is_not_done(const Folder& folder) {
  if (folder.generation.not_done.empty()) return;
  const std::string keys = fmt::format("{}", fmt::join(folder.generation.not_done, ", "));
  std::cerr << fmt::format("warning: {}/{} asks for what is not done here: {}\n", seppo::printable_path(folder.path),
                           kFile, std::string(seppo::printable(keys)));
}

}  // namespace llm
