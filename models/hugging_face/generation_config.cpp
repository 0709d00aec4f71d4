// The keys of generation_config.json, and which of them ask for nothing.
#include "generation_config.h"

#include "../decoding/constraints.h"
#include "config_keys.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/config.h"
#include "../../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// These do not change which tokens are written, or say what config.json and the tokenizer say too.
const std::set<std::string_view> kPassedOver{
    "bos_token_id",          "cache_config",       "cache_implementation",    "decoder_start_token_id",
    "disable_compile",       "low_memory",         "max_matching_ngram_size", "max_time",
    "output_attentions",     "output_logits",      "output_hidden_states",    "output_scores",
    "pad_token_id",          "prefill_chunk_size", "return_dict_in_generate", "return_legacy_cache",
    "transformers_version",  "use_cache",          "compile_config",          "renormalize_logits",
    "remove_invalid_values", "chat_format",        "max_window_size",         "trust_remote_code"};

// Values with which features that are not done make no difference.
const std::map<std::string_view, json> kNeutralSettings{{"diversity_penalty", 0},
                                                        {"encoder_no_repeat_ngram_size", 0},
                                                        {"encoder_repetition_penalty", 1},
                                                        {"epsilon_cutoff", 0},
                                                        {"eta_cutoff", 0},
                                                        {"guidance_scale", 1},
                                                        {"length_penalty", 1},
                                                        {"num_beam_groups", 1},
                                                        {"num_beams", 1},
                                                        {"num_return_sequences", 1},
                                                        {"top_h", 1},
                                                        {"typical_p", 1}};

bool is_neutral_setting(std::string_view key, const json& value) {
  if (key.starts_with("_") || kPassedOver.contains(key)) return true;
  if (value.is_null() || value == false || value == "") return true;
  if (value.is_structured() && value.empty()) return true;
  const auto found = kNeutralSettings.find(key);
  return found != kNeutralSettings.end() && value == found->second;
}

// Reads keys, and remembers which.
class Reader {
 public:
  Reader(std::string name, const json& all, int vocabulary)
      : keys_(std::move(name), all), all_(all), vocabulary_(vocabulary) {}

  GenerationConfig read() {
    GenerationConfig made;
    made.temperature = number("temperature", {0, 100});
    made.top_p = number("top_p", {1e-6, 1});
    made.min_p = number("min_p", {0, 1});
    made.repetition_penalty = number("repetition_penalty", {1e-3, 1e3});
    made.top_k = integer("top_k");
    made.max_tokens = integer("max_new_tokens");
    made.max_length = integer("max_length");
    if (has("eos_token_id")) made.stops = tokens("eos_token_id");
    made.min_tokens = integer("min_new_tokens");
    made.min_length = integer("min_length").value_or(0);
    made.no_repeat_ngram_size = integer("no_repeat_ngram_size").value_or(0);
    made.banned = tokens("suppress_tokens");
    made.banned_first = tokens("begin_suppress_tokens");
    made.bad_words = bad_words();
    apply_do_sample(made);
    for (const auto& [key, value] : all_.items())
      if (!read_.contains(key) && !is_neutral_setting(key, value)) made.not_done.push_back(key);
    return made;
  }

 private:
  bool has(const char* key) {
    read_.insert(key);
    return keys_.has(key);
  }

  std::optional<double> number(const char* key, Range range) {
    if (!has(key)) return {};
    const double value = keys_.number(key, 0);
    check<FormatError>(value >= range.least && value <= range.most, keys_.name(), ": '", key, "': ", value,
                       " is not in ", range.least, "..", range.most);
    return value;
  }
  std::optional<int> integer(const char* key) {
    if (!has(key)) return {};
    return keys_.integer(key);
  }
  std::vector<int> tokens(const char* key) {
    if (!has(key)) return {};
    return keys_.tokens(key, vocabulary_);
  }

  std::vector<std::vector<int>> bad_words() {
    constexpr const char* kKey = "bad_words_ids";
    std::vector<std::vector<int>> words;
    if (!has(kKey)) return words;
    const json& all = *keys_.find(kKey);
    check<FormatError>(all.is_array(), keys_.name(), ": '", kKey, "' is no list");
    for (const json& word : all) {
      check<FormatError>(word.is_array() && !word.empty(), keys_.name(), ": '", kKey,
                         "' is no list of lists of tokens");
      const auto tokens = ConfigKeys(keys_.name(), {{kKey, word}}).tokens(kKey, vocabulary_);
      if (tokens.size() == word.size()) words.push_back(tokens);
    }
    return words;
  }

  void apply_do_sample(GenerationConfig& made) {
    constexpr double kTemperature = 1;
    constexpr int kTopK = 50;
    if (!has("do_sample")) return;
    if (!keys_.flag("do_sample", false)) {
      made.temperature = 0;
      return;
    }
    made.temperature = made.temperature.value_or(kTemperature);
    made.top_k = made.top_k.value_or(kTopK);
  }

  ConfigKeys keys_;
  const json& all_;
  int vocabulary_;
  std::set<std::string, std::less<>> read_;
};

// A text may always end.
bool is_one_of(const std::vector<int>& stop, const std::vector<int>& word) {
  return word.size() == 1 && std::ranges::find(stop, word[0]) != stop.end();
}

// Bans the last token of the word if the text ends with the others.
void ban_word(std::span<real> scores, std::span<const int> text, const std::vector<int>& word) {
  const std::size_t before = word.size() - 1;
  if (text.size() < before) return;
  const auto end = text.last(before);
  if (std::equal(end.begin(), end.end(), word.begin())) ban_tokens(scores, {word.back()});
}

}  // namespace

ScoreHook GenerationConfig::hook(std::vector<int> stop, std::size_t prompt) const {
  const std::size_t least =
      min_tokens ? prompt + static_cast<std::size_t>(*min_tokens) : static_cast<std::size_t>(min_length);
  const bool is_free = banned.empty() && banned_first.empty() && bad_words.empty() && no_repeat_ngram_size == 0;
  if (is_free && least <= prompt) return {};
  return [file = *this, stop = std::move(stop), prompt, least](std::span<real> scores, std::span<const int> text) {
    ban_tokens(scores, file.banned);
    if (text.size() == prompt) ban_tokens(scores, file.banned_first);
    if (text.size() < least) ban_tokens(scores, stop);
    for (const std::vector<int>& word : file.bad_words)
      if (!is_one_of(stop, word)) ban_word(scores, text, word);
    if (file.no_repeat_ngram_size > 0) ban_repeated_ngrams(scores, text, file.no_repeat_ngram_size);
  };
}

GenerationConfig read_generation_config(const std::filesystem::path& file, int vocabulary) {
  if (!std::filesystem::exists(file)) return {};
  const std::string name = printable_path(file);
  const json all = parse_python_json(read_text(file), name);
  return Reader(name, all, vocabulary).read();
}

GenerationConfig generation_config_of(const std::filesystem::path& folder, int vocabulary) {
  const std::filesystem::path own = folder / "generation_config.json";
  return read_generation_config(std::filesystem::exists(own) ? own : folder / "config.json", vocabulary);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
