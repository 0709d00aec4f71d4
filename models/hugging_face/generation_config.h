// generation_config.json: how Hugging Face's generate() writes texts with a model, as options of generate() here.
//
//   const GenerationConfig file = read_generation_config("DIR/generation_config.json", vocabulary);
//   GenerateOptions options{.sampling = {.temperature = file.temperature.value_or(1)}, .stop = model.config.stops};
//   options.hook = file.hook(options.stop, prompt.size());
//
// An option without a value is one that the file does not state. do_sample says whether tokens are drawn: if it is
// false, the temperature is 0; if it is true, temperature and top_k are Hugging Face's, 1 and 50, where the file has no
// others.
#pragma once

#include "../decoding/hooks.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct GenerationConfig {
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, repetition_penalty = {};
  std::optional<int> top_k = {};
  std::optional<int> max_tokens = {};            // max_new_tokens
  std::optional<int> max_length = {};            // of the prompt and the text together
  std::optional<std::vector<int>> stops = {};    // eos_token_id
  std::optional<int> min_tokens = {};            // min_new_tokens: before them, no text ends
  int min_length = 0;                            // without them: the same, the prompt included
  int no_repeat_ngram_size = 0;                  // n tokens in a row occur once; 0: any may be repeated
  std::vector<int> banned = {};                  // suppress_tokens
  std::vector<int> banned_first = {};            // begin_suppress_tokens
  std::vector<std::vector<int>> bad_words = {};  // tokens that never follow each other
  std::vector<std::string> not_done = {};        // keys that ask for something else

  // Forbids what the file forbids after a prompt of this length; nothing if it forbids nothing.
  ScoreHook hook(std::vector<int> stop, std::size_t prompt) const;
};

// Of a file that does not exist, nothing is stated. Throws FormatError naming the file, the key and the rule;
// FileError.
GenerationConfig read_generation_config(const std::filesystem::path& file, int vocabulary);

// That of a model's folder: of generation_config.json or, where there is none, of config.json, as earlier versions of
// Hugging Face's loaders have it.
GenerationConfig generation_config_of(const std::filesystem::path& folder, int vocabulary);

}  // namespace SEPPO_ABI
}  // namespace seppo
