// Each option once: where its value comes from, and what that is.
#include "llm/writing.h"

#include "app/sampling.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/models/gguf/gguf_model.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

namespace llm {

using examples::CommandLine;

void Writing::add_to(CommandLine& line) {
  line("max_tokens", options_.max_tokens, {0, 1e9}, "tokens to write at most");
  examples::add_sampling(line, options_.sampling, "token");
  line("seed", options_.seed, "random seed for sampling");
}

template <class T>
void Writing::settle(const CommandLine& line, const char* option, T& value, const std::optional<T>& in_file) {
  std::string key = option;
  std::ranges::replace(key, '-', '_');
  const char* from = "default";
  if (line.given(option)) {
    from = "command line";
  } else if (in_file) {
    from = "generation_config.json";
    value = *in_file;
  }
  sources_[key] = {{"value", value}, {"from", from}};
}

seppo::GenerateOptions Writing::options(const CommandLine& line, const Folder& folder, std::size_t prompt) {
  const seppo::GenerationConfig& file = folder.generation;
  std::optional<int> max_tokens = file.max_tokens;
  if (!max_tokens && file.max_length) max_tokens = std::max(0, *file.max_length - static_cast<int>(prompt));
  seppo::SamplingOptions& sampling = options_.sampling;
  settle(line, "max-tokens", options_.max_tokens, max_tokens);
  settle(line, "temperature", sampling.temperature, file.temperature);
  settle(line, "top-k", sampling.top_k, file.top_k);
  settle(line, "top-p", sampling.top_p, file.top_p);
  settle(line, "min-p", sampling.min_p, file.min_p);
  settle(line, "repetition-penalty", sampling.repetition_penalty, file.repetition_penalty);
  options_.stop = folder.config.stops;
  const char* const of_model = seppo::is_gguf(folder.path) ? "metadata" : "config.json";
  sources_["stop"] = {{"value", options_.stop}, {"from", file.stops ? "generation_config.json" : of_model}};
  options_.stride = std::max(1, folder.model.config.max_length / 2);  // of a full window, the second half is kept
  options_.hook = file.hook(options_.stop, prompt);
  return options_;
}

void tell_what_is_not_done(const Folder& folder) {
  const std::vector<std::string>& keys = folder.generation.not_done;
  if (keys.empty()) return;
  const std::string all = fmt::format("{}", fmt::join(keys, ", "));
  std::cerr << fmt::format("{}/generation_config.json asks for what is not done here: {}\n",
                           seppo::printable_path(folder.path), std::string(seppo::printable(all)));
}

}  // namespace llm
