// Every key of metadata that the reader of GGUF files asks for: another value than the default gives the config that
// the format's description says, or is refused. The keys are found in the sources: a new one fails without its row.
#include <seppo/models/gguf/gguf_model.h>

#include "support/gguf.h"
#include "support/paths.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <variant>
#include <vector>

using namespace seppo;
using nlohmann::json;

namespace {

using Value = std::variant<std::uint32_t, float, bool, std::string, std::vector<bool>, std::vector<std::string>>;
using Keys = std::map<std::string, Value>;  // those of the architecture without its name

// What a file has unless a row says otherwise: no value is a default.
Keys usual_keys(const std::string& kind) {
  const bool has_layer_norms =
      kind == "gpt2" || kind == "gptneox" || kind == "stablelm" || kind == "phi2" || kind == "command-r";
  Keys keys{{"embedding_length", 16u},
            {"feed_forward_length", 24u},
            {"block_count", 2u},
            {"context_length", 32u},
            {"attention.head_count", 4u}};
  keys[has_layer_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"] = 0.0625F;
  return keys;
}

HfConfig read(const std::string& kind, const Keys& changed) {
  test::GgufWriter writer;
  writer.add("general.architecture", kind);
  Keys all = usual_keys(kind);
  for (const auto& [key, value] : changed) all[key] = value;
  for (const auto& [key, value] : all) {
    const std::string name = key.starts_with("tokenizer.") ? key : kind + "." + key;
    std::visit([&](const auto& one) { writer.add(name, one); }, value);
  }
  writer.floats("token_embd.weight", {16, 10}, std::vector<float>(160));
  const test::Folder folder("gguf");
  folder.write("f.gguf", writer.file());
  return gguf_config(GgufFile(folder.path / "f.gguf"));
}

// With the keys, and with these of them left out, which are not what is tested, the config is as `seen` tells.
struct Row {
  std::string key, kind;
  Keys keys;
  std::function<json(const HfConfig&)> seen;
  json expected;  // null: the file is refused
};

json window_of(const HfConfig& c, std::size_t layer) { return c.model.decoder.attentions.at(layer).window; }
const RotaryScaling& scaling_of(const HfConfig& c) { return c.model.decoder.rope.scaling; }
json kind_of(const HfConfig& c) { return scaling_of(c).kind == RotaryScale::linear ? "linear" : "another"; }

const Keys kYarn{{"rope.scaling.type", std::string("yarn")}, {"rope.scaling.factor", 4.0F}};

Keys with(Keys keys, const std::string& key, Value value) {
  keys[key] = std::move(value);
  return keys;
}

using C = const HfConfig&;
const std::vector<Row> kRows{
    {"embedding_length", "llama", {{"embedding_length", 32u}}, [](C c) { return json(c.model.layer.d_model); }, 32},
    {"feed_forward_length", "llama", {{"feed_forward_length", 40u}}, [](C c) { return c.model.layer.d_ff; }, 40},
    {"block_count", "llama", {{"block_count", 3u}}, [](C c) { return c.model.n_layers; }, 3},
    {"context_length", "llama", {{"context_length", 64u}}, [](C c) { return c.model.max_length; }, 64},
    {"vocab_size", "llama", {{"vocab_size", 10u}}, [](C c) { return c.model.vocabulary; }, 10},
    {"vocab_size", "llama", {{"vocab_size", 11u}}, {}, {}},
    {"attention.head_count", "llama", {{"attention.head_count", 2u}}, [](C c) { return c.model.layer.n_heads; }, 2},
    {"attention.head_count_kv",
     "llama",
     {{"attention.head_count_kv", 2u}},
     [](C c) { return c.model.layer.n_kv_heads; },
     2},
    {"attention.head_count_kv", "gpt2", {{"attention.head_count_kv", 2u}}, {}, {}},
    {"attention.layer_norm_rms_epsilon", "llama", {}, [](C c) { return c.model.layer.eps; }, 0.0625},
    {"attention.layer_norm_epsilon", "gpt2", {}, [](C c) { return c.model.layer.eps; }, 0.0625},
    {"attention.key_length",
     "llama",
     {{"attention.key_length", 6u}, {"attention.value_length", 6u}, {"rope.dimension_count", 6u}},
     [](C c) { return c.model.layer.head_width; },
     6},
    {"attention.key_length",  // 16 columns are no three heads' that are 5 wide
     "llama",
     {{"attention.head_count", 3u}, {"attention.key_length", 5u}, {"rope.dimension_count", 5u}},
     {},
     {}},
    {"attention.key_length",
     "llama",
     {{"embedding_length", 20u},
      {"attention.head_count", 3u},
      {"attention.key_length", 6u},
      {"attention.value_length", 6u}},
     [](C c) { return c.model.layer.head_width; },
     6},
    {"attention.value_length", "llama", {{"attention.value_length", 6u}}, {}, {}},
    {"rope.dimension_count",
     "phi2",
     {{"rope.dimension_count", 2u}},
     [](C c) { return c.model.decoder.rope.share; },
     0.5},
    {"rope.dimension_count", "llama", {{"rope.dimension_count", 2u}}, {}, {}},
    {"rope.dimension_count",  // 60.0 / 88 * 88 is less than 60
     "phi2",
     {{"embedding_length", 88u}, {"attention.head_count", 1u}, {"rope.dimension_count", 60u}},
     [](C c) { return rotated_columns(c.model.decoder.rope.share, 88); },
     60},
    {"rope.freq_base", "llama", {{"rope.freq_base", 500.0F}}, [](C c) { return c.model.rope_theta; }, 500},
    {"rope.scale_linear", "llama", {{"rope.scale_linear", 2.0F}}, [](C c) { return scaling_of(c).factor; }, 2},
    {"rope.scale_linear", "llama", {{"rope.scale_linear", 2.0F}}, kind_of, "linear"},
    {"rope.scaling.type",
     "llama",
     {{"rope.scaling.type", std::string("none")}, {"rope.scaling.factor", 4.0F}},
     [](C c) { return scaling_of(c).kind == RotaryScale::none; },
     true},
    {"rope.scaling.type", "llama", kYarn, [](C c) { return scaling_of(c).kind == RotaryScale::yarn; }, true},
    {"rope.scaling.type", "command-r", with(kYarn, "logit_scale", 0.5F), {}, {}},
    {"rope.scaling.factor",
     "llama",
     {{"rope.scaling.type", std::string("linear")}, {"rope.scaling.factor", 4.0F}},
     [](C c) { return scaling_of(c).factor; },
     4},
    {"rope.scaling.original_context_length", "llama", with(kYarn, "rope.scaling.original_context_length", 8u),
     [](C c) { return scaling_of(c).original_length; }, 8},
    {"rope.scaling.original_context_length", "llama", kYarn, [](C c) { return scaling_of(c).original_length; }, 32},
    {"rope.scaling.yarn_beta_slow", "llama", with(kYarn, "rope.scaling.yarn_beta_slow", 2.0F),
     [](C c) { return scaling_of(c).slow; }, 2},
    {"rope.scaling.yarn_beta_fast", "llama", with(kYarn, "rope.scaling.yarn_beta_fast", 8.0F),
     [](C c) { return scaling_of(c).fast; }, 8},
    {"tokenizer.ggml.bos_token_id",
     "llama",
     {{"tokenizer.ggml.bos_token_id", 3u}},
     [](C c) { return c.bos.value_or(-1); },
     3},
    {"tokenizer.ggml.eos_token_id",
     "llama",
     {{"tokenizer.ggml.eos_token_id", 4u}},
     [](C c) { return c.stops; },
     json::array({4})},
    {"tokenizer.ggml.eom_token_id",
     "llama",
     {{"tokenizer.ggml.eos_token_id", 4u}, {"tokenizer.ggml.eom_token_id", 5u}},
     [](C c) { return c.stops; },
     json::array({4, 5})},
    {"attention.causal", "llama", {{"attention.causal", true}}, [](C c) { return c.model.n_layers; }, 2},
    {"attention.causal", "llama", {{"attention.causal", false}}, {}, {}},
    {"rope.scaling.finetuned", "granite", {{"rope.scaling.finetuned", false}}, {}, {}},
    {"rope.scaling.finetuned", "llama", with(kYarn, "rope.scaling.finetuned", true),
     [](C c) { return scaling_of(c).factor; }, 4},
    {"tokenizer.ggml.tokens",
     "llama",
     {{"tokenizer.ggml.tokens", std::string("<|end|>")}},
     [](C c) { return c.stops; },
     json::array()},           // which the reader of the tokenizer refuses
    {"tokenizer.ggml.tokens",  // "<|end|>" ends a text wherever it is
     "llama",
     {{"tokenizer.ggml.eos_token_id", 4u}, {"tokenizer.ggml.tokens", std::vector<std::string>{"a", "<|end|>"}}},
     [](C c) { return c.stops; },
     json::array({4, 1})},
    {"tokenizer.ggml.eot_token_id",
     "llama",
     {{"tokenizer.ggml.eos_token_id", 4u}, {"tokenizer.ggml.eot_token_id", 5u}},
     [](C c) { return c.stops; },
     json::array({4, 5})},
    {"tokenizer.ggml.eot_token_id",
     "llama",
     {{"tokenizer.ggml.eos_token_id", 4u}, {"tokenizer.ggml.eot_token_id", 4u}},
     [](C c) { return c.stops; },
     json::array({4})},
    {"expert_count",
     "llama",
     {{"expert_count", 5u}, {"expert_used_count", 3u}},
     [](C c) { return c.model.decoder.experts; },
     5},
    {"expert_used_count",
     "llama",
     {{"expert_count", 5u}, {"expert_used_count", 3u}},
     [](C c) { return c.model.decoder.experts_chosen; },
     3},
    {"embedding_scale",
     "granite",
     {{"embedding_scale", 0.5F}},
     [](C c) { return c.model.decoder.embedding_scale; },
     0.5},
    {"residual_scale",
     "granite",
     {{"residual_scale", 0.25F}},
     [](C c) { return c.model.decoder.residual_scale; },
     0.25},
    {"attention.scale",
     "granite",
     {{"attention.scale", 0.125F}},
     [](C c) { return c.model.decoder.attention_scale; },
     0.125},
    {"attention.scale", "gemma2", {{"attention.scale", 0.25F}, {"attention.sliding_window", 5u}}, {}, {}},
    {"logit_scale", "granite", {{"logit_scale", 8.0F}}, [](C c) { return c.model.decoder.output_scale; }, 0.125},
    {"logit_scale", "granite", {{"logit_scale", 0.0F}}, {}, {}},  // scores are divided by it
    {"embedding_scale", "granite", {{"embedding_scale", std::numeric_limits<float>::infinity()}}, {}, {}},
    {"logit_scale", "command-r", {{"logit_scale", 0.25F}}, [](C c) { return c.model.decoder.output_scale; }, 0.25},
    {"logit_scale", "command-r", {}, {}, {}},
    {"attention.sliding_window", "phi3", {{"attention.sliding_window", 7u}}, [](C c) { return window_of(c, 1); }, 7},
    {"attention.sliding_window", "gemma2", {{"attention.sliding_window", 5u}}, [](C c) { return window_of(c, 0); }, 5},
    {"attention.sliding_window", "gemma2", {{"attention.sliding_window", 5u}}, [](C c) { return window_of(c, 1); }, 0},
    {"attention.sliding_window_pattern",
     "gemma3",
     {{"attention.sliding_window", 5u}, {"attention.sliding_window_pattern", 3u}, {"block_count", 6u}},
     [](C c) {
       return json{window_of(c, 0), window_of(c, 1), window_of(c, 2),
                   window_of(c, 3), window_of(c, 4), window_of(c, 5)};
     },
     json{5, 5, 0, 5, 5, 0}},
    {"attention.sliding_window_pattern",
     "gemma3",
     {{"attention.sliding_window", 5u}, {"attention.sliding_window_pattern", 1u}},
     [](C c) { return window_of(c, 0); },
     0},
    {"attention.sliding_window_pattern",
     "gemma3",
     {{"attention.sliding_window", 5u}},
     [](C c) { return window_of(c, 1); },
     5},
    {"attention.sliding_window_pattern",
     "gemma3",
     {{"attention.sliding_window", 5u}, {"attention.sliding_window_pattern", std::vector<bool>{true, false}}},
     [](C c) {
       return json{window_of(c, 0), window_of(c, 1)};
     },
     {5, 0}},
    {"attention.sliding_window_pattern",
     "gemma3",
     {{"attention.sliding_window", 5u}, {"attention.sliding_window_pattern", std::vector<bool>{true}}},
     {},
     {}},
    {"block_count",
     "gemma2",
     {{"attention.sliding_window", 5u}, {"block_count", 46u}},
     [](C c) { return c.model.decoder.attention_scale; },
     0.5},
    {"block_count",
     "gemma3",
     {{"attention.sliding_window", 5u}, {"block_count", 62u}},
     [](C c) { return c.model.decoder.attention_scale; },
     0.5},
    {"block_count",
     "gemma3",
     {{"attention.sliding_window", 5u}, {"block_count", 46u}},
     [](C c) { return c.model.decoder.attention_scale; },
     0},
    {"attn_logit_softcapping",
     "gemma2",
     {{"attn_logit_softcapping", 30.0F}, {"attention.sliding_window", 5u}},
     [](C c) { return c.model.decoder.attention_softcap; },
     30},
    {"final_logit_softcapping",
     "gemma2",
     {{"final_logit_softcapping", 20.0F}, {"attention.sliding_window", 5u}},
     [](C c) { return c.model.decoder.output_softcap; },
     20},
    {"attn_logit_softcapping", "gemma2", {}, [](C c) { return c.model.decoder.attention_softcap; }, 50},
    {"final_logit_softcapping", "gemma2", {}, [](C c) { return c.model.decoder.output_softcap; }, 30},
    {"attention.sliding_window", "gemma2", {}, [](C c) { return window_of(c, 0); }, 4096},
    {"final_logit_softcapping",
     "gemma3",
     {{"final_logit_softcapping", 20.0F}, {"attention.sliding_window", 5u}},
     [](C c) { return c.model.decoder.output_softcap; },
     20},
    {"rope.freq_base_swa",
     "gemma3",
     {{"rope.freq_base_swa", 50.0F}, {"attention.sliding_window", 5u}},
     [](C c) { return c.model.decoder.local_rope_theta; },
     50},
    {"use_parallel_residual",
     "gptneox",
     {{"use_parallel_residual", false}},
     [](C c) { return c.model.decoder.sublayers == Sublayers::one_after_another; },
     true},
    {"use_parallel_residual",
     "stablelm",
     {{"use_parallel_residual", true}},
     [](C c) { return c.model.decoder.sublayers == Sublayers::side_by_side_one_norm; },
     true}};

// The keys that these sources ask for, directly or by a constant.
std::set<std::string> keys_in_sources() {
  std::set<std::string> found;
  const std::regex asked(R"(keys\.(?:integer|number|required|positive|require|flag|find|tokens)\(\s*"([a-z_.]+)\")");
  const std::regex constant(R"(constexpr const char\* k\w+ = "([a-z_]+\.[a-z_.]+)\")");
  const std::regex listed(R"R("(tokenizer\.ggml\.[a-z_]+|attention\.layer_norm[a-z_]*)")R");
  for (const char* file : {"gguf_config.cpp", "architectures.cpp"}) {
    const std::string text = test::read(std::filesystem::path(test::source_folder()) / "models/gguf" / file);
    for (const std::regex& pattern : {asked, constant, listed})
      for (std::sregex_iterator m(text.begin(), text.end(), pattern), end; m != end; ++m) found.insert((*m)[1]);
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_key_acts) {
  for (const Row& row : kRows) BOOST_TEST_CONTEXT(row.kind << " " << row.key << ": " << row.expected) {
      if (row.expected.is_null())
        BOOST_CHECK_THROW(read(row.kind, row.keys), FormatError);
      else
        BOOST_CHECK_EQUAL(row.seen(read(row.kind, row.keys)), row.expected);
    }
}

BOOST_AUTO_TEST_CASE(every_key_has_a_row) {
  std::set<std::string> rows;
  for (const Row& row : kRows) rows.insert(row.key);
  const std::set<std::string> asked = keys_in_sources();
  BOOST_CHECK_GT(asked.size(), 25u);
  for (const std::string& key : asked) BOOST_CHECK_MESSAGE(rows.contains(key), "no row for " << key);
}
