// Which keys of config.json are harmless, and the types of the others.
#include "config_keys.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// These say how a model was made, trained, stored, evaluated or sampled from; they do not change its logits. Dropout is
// off unless a model is trained, and then the options of the training say how much there is.
const std::set<std::string_view> kHarmless{
    // about the file
    "architectures", "custom_pipelines", "dtype", "finetuning_task", "is_llama_config", "model_type", "name_or_path",
    "task_specific_params", "tokenizer_class", "torch_dtype", "transformers.js_config", "transformers_version",
    // about programs
    "attention_softmax_in_fp32", "attn_implementation", "bias_dropout_fusion", "cache_implementation",
    "chunk_size_feed_forward", "gradient_checkpointing", "masked_softmax_fusion", "n_ctx", "pretraining_tp",
    "reorder_and_upcast_attn", "return_dict", "return_dict_in_generate", "skip_bias_add", "slow_but_exact",
    "torchscript", "use_bfloat16", "use_cache",
    // about training
    "activation_dropout", "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "classifier_dropout",
    "dropout", "embd_pdrop", "hidden_dropout", "hidden_dropout_prob", "init_std", "initializer_range", "layerdrop",
    "resid_pdrop", "router_aux_loss_coef", "router_jitter_noise",
    // in files of real models, but of none of their classes
    "ff_factor", "learned_embeddings", "max_sequence_length", "max_window_layers", "offset_alibi", "scale_embeddings",
    "sliding_window_size",
    // about other heads and tasks
    "id2label", "label2id", "num_labels", "problem_type",
    // about text that is generated
    "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty", "do_sample",
    "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "min_length", "model_max_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "pad_token_id", "prefix", "remove_invalid_values",
    "repetition_penalty", "sep_token_id", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p",
    "unk_token_id"};

// The same for all keys that begin so: private to Hugging Face's classes, or of its other models.
constexpr std::string_view kHarmlessPrefixes[] = {"_", "output_", "summary_", "time_step_", "unsloth_"};

// Values of features that a LanguageModel lacks, with which they make no difference.
const std::map<std::string_view, json> kNeutral{
    {"embedding_multiplier", 1},  {"layer_types", "full_attention"}, {"logit_scale", 1}, {"logits_scaling", 1},
    {"partial_rotary_factor", 1}, {"residual_multiplier", 1},        {"rotary_pct", 1}};

bool is_harmless(std::string_view key) {
  return kHarmless.contains(key) ||
         std::ranges::any_of(kHarmlessPrefixes, [&](std::string_view prefix) { return key.starts_with(prefix); });
}

// Features that a LanguageModel always has.
const std::set<std::string_view> kAlwaysOn{"is_causal"};

bool is_neutral(std::string_view key, const json& value) {
  if (kAlwaysOn.contains(key)) return value.is_null() || value == true;
  if (value.is_null() || value == false || value == "") return true;
  const auto found = kNeutral.find(key);
  const auto is_off = [&](const json& one) { return found != kNeutral.end() && one == found->second; };
  if (value.is_array()) return std::ranges::all_of(value, is_off);
  return value.is_object() ? value.empty() : is_off(value);
}

// The bytes of the number that is not JSON with which the text begins; 0 if there is none.
std::size_t length_of_python_number(std::string_view text) {
  for (const std::string_view number : {"Infinity", "-Infinity", "NaN"})
    if (text.starts_with(number)) return number.size();
  return 0;
}

// A list as it is; one value as a list of it; null as an empty one.
json list_of(const json& value) {
  if (value.is_array()) return value;
  return value.is_null() ? json::array() : json::array({value});
}

}  // namespace

json parse_python_json(std::string_view text, std::string_view name) {
  std::string strict;
  bool is_in_string = false;
  while (!text.empty()) {
    const std::size_t number = is_in_string ? 0 : length_of_python_number(text);
    const bool is_escape = is_in_string && text[0] == '\\' && text.size() > 1;
    std::size_t length = 1;
    if (number > 0) {
      length = number;
      strict += '"' + std::string(text.substr(0, length)) + '"';
    } else {
      if (is_escape) length = 2;
      if (text[0] == '"') is_in_string = !is_in_string;
      strict += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return parse_json(strict, name);
}

ConfigKeys::ConfigKeys(std::string name, json all) : name_(std::move(name)), all_(std::move(all)) {
  check<FormatError>(all_.is_object(), name_, ": is no object");
}

const json* ConfigKeys::find(const std::string& key) const {
  asked_.insert(key);
  const auto found = all_.find(key);
  return found == all_.end() ? nullptr : &*found;
}

bool ConfigKeys::has(const std::string& key) const {
  const json* const found = find(key);
  return found && !found->is_null();
}

const json& ConfigKeys::value_of(const std::string& key) const {
  static const json none;
  const json* const found = find(key);
  return found ? *found : none;
}

int ConfigKeys::integer(const std::string& key, std::optional<int> fallback) const {
  const json& value = value_of(key);
  if (value.is_null() && fallback) return *fallback;
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= 1 << 30;
  check<FormatError>(fits, name_, ": '", key, "' is missing, or no integer from 0 to 2^30");
  return value.get<int>();
}

double ConfigKeys::number(const std::string& key, double fallback) const {
  const json& value = value_of(key);
  if (value.is_null()) return fallback;
  check<FormatError>(value.is_number() && std::isfinite(value.get<double>()), name_, ": '", key, "' is no number");
  return value.get<double>();
}

bool ConfigKeys::flag(const std::string& key, bool fallback) const {
  const json& value = value_of(key);
  if (value.is_null()) return fallback;
  check<FormatError>(value.is_boolean(), name_, ": '", key, "' is neither true nor false");
  return value.get<bool>();
}

json ConfigKeys::one_of(const std::string& key, const json& values) const {
  json value = has(key) ? value_of(key) : values[0];
  check<FormatError>(std::ranges::find(values, value) != values.end(), name_, ": '", key, "': ", printable_json(value),
                     " is not supported; known are ", values.dump());
  return value;
}

std::vector<int> ConfigKeys::tokens(const std::string& key, int vocabulary) const {
  std::vector<int> ids;
  for (const json& id : list_of(value_of(key))) {
    if (id == -1) continue;
    const bool is_token = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<unsigned>(vocabulary);
    check<FormatError>(is_token, name_, ": '", key, "': ", printable_json(id), " is no token of ", vocabulary);
    ids.push_back(id.get<int>());
  }
  return ids;
}

void ConfigKeys::check_others() const {
  for (const auto& [key, value] : all_.items())
    check<FormatError>(asked_.contains(key) || is_harmless(key) || is_neutral(key, value), name_, ": '", printable(key),
                       "': ", printable_json(value), " is not supported");
}

}  // namespace SEPPO_ABI
}  // namespace seppo
