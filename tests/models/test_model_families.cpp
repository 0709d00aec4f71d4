// Folders that Hugging Face's transformers wrote, of every family, with what transformers computes.
// needs: precision: double single
#include "support/json.h"
#include "support/paths.h"
#include "support/precision.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/models/hugging_face/pretrained.h>
#include <seppo/models/window_score.h>
#include <seppo/nn/io/text_file.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

namespace fs = std::filesystem;
using namespace seppo;

namespace {

// Folders, each with the logits and the greedy text that transformers computes: none where the project is built alone.
std::vector<fs::path> folders() {
  const char* const other = std::getenv("SEPPO_MODEL_FOLDERS");
  const fs::path cases =
      other ? fs::path(other) : fs::path(test::source_folder()) / "../shared/cases/hugging_face/folders";
  std::vector<fs::path> found;
  if (fs::exists(cases))
    for (const auto& entry : fs::directory_iterator(cases))
      if (fs::exists(entry.path() / "expected.json")) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

struct Expected {
  std::vector<int> ids, rows, prompt, greedy;
  std::vector<std::vector<double>> logits;
};

// Of such a folder, which may have the model as a GGUF file.
Pretrained load(const fs::path& folder) {
  const fs::path gguf = folder / "model.gguf";
  return fs::exists(gguf) ? load_gguf(gguf) : load_pretrained(folder);
}

std::vector<int> integers(const test::Json& list) {
  std::vector<int> values;
  for (const double value : list.numbers()) values.push_back(static_cast<int>(value));
  return values;
}

Expected expected_of(const fs::path& folder) {
  const auto all = test::Json::parse(read_text(folder / "expected.json"));
  Expected expected{integers(all["ids"]), integers(all["rows"]), integers(all["prompt"]), integers(all["greedy"]), {}};
  for (const test::Json& row : all["logits"].elements()) expected.logits.push_back(row.numbers());
  return expected;
}

Ragged one(const std::vector<int>& tokens) {
  Ragged text;
  text.add(tokens);
  return text;
}

// The largest difference of the scores from those expected. Transformers computes norms and rotations in single
// precision, whatever the model's.
double difference(const Tensor& scores, const Expected& expected) {
  double most = 0;
  for (std::size_t r = 0; r < expected.rows.size(); ++r)
    for (std::size_t j = 0; j < expected.logits[r].size(); ++j) {
      const auto row = static_cast<std::size_t>(expected.rows[r]);
      const double ours{scores.values()[row * scores.cols() + j]};
      most = std::max(most, std::abs(ours - expected.logits[r][j]));
    }
  return most;
}

// The same scores, with tokens given to a cache in pieces.
Tensor scores_with_cache(const LanguageModel& model, const std::vector<int>& ids, const std::vector<int>& pieces) {
  KeyValueCache cache = model.make_cache(1);
  std::vector<Tensor> scores;
  std::size_t begin = 0;
  for (const int piece : pieces) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    scores.push_back(model(one({first, first + piece}), &cache));
    begin += static_cast<std::size_t>(piece);
  }
  return concat(scores);
}

std::vector<int> greedy_without_cache(const LanguageModel& model, const Expected& expected) {
  std::vector<int> text = expected.prompt;
  for (std::size_t i = 0; i < expected.greedy.size(); ++i) {
    const Inference guard;
    text.push_back(argmax(model(one(text))).back());
  }
  return {text.end() - std::ssize(expected.greedy), text.end()};
}

std::vector<int> greedy(const LanguageModel& model, const Expected& expected) {
  const GenerateOptions options{.max_tokens = static_cast<int>(expected.greedy.size()), .sampling = {.temperature = 0}};
  return generate(model, one(expected.prompt), options)[0];
}

// Calls f with each folder, its name and what is expected of it.
template <class F>
void for_each_folder(const F& f) {
  const std::vector<fs::path> all = folders();
  if (all.empty()) BOOST_TEST_MESSAGE("skipped: there are no folders of models");
  for (const fs::path& folder : all) BOOST_TEST_CONTEXT(folder.filename()) {
      f(folder);
    }
}

// ---- folders that this test writes

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("seppo-families-" + std::to_string(::getpid()));

  TemporaryFolder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~TemporaryFolder() { fs::remove_all(path); }
};

HfConfig small(Architecture architecture) {
  HfConfig config{.architecture = architecture};
  LanguageModelConfig& m = config.model;
  m.layer.dropout = m.layer.attention_dropout = 0;
  set_architecture(architecture, m);
  m.vocabulary = 13;
  m.layer.d_model = 16;
  m.layer.n_heads = 4;
  m.layer.n_kv_heads = has_kv_heads(architecture) ? 2 : 0;
  m.layer.d_ff = 12;
  m.n_layers = 2;
  m.max_length = 16;
  return config;
}

// Calls f with each family.
template <class F>
void for_each_family(const F& f) {
  const auto names = enum_names(Architecture{});
  for (std::size_t i = 0; i < names.size(); ++i) BOOST_TEST_CONTEXT(names[i]) {
      f(static_cast<Architecture>(i));
    }
}

nlohmann::json config_of(Architecture architecture) { return to_json(small(architecture)); }

HfConfig read(const TemporaryFolder& folder, const nlohmann::json& config) {
  write_text(folder.path / "config.json", config.dump());
  return read_hf_config(folder.path / "config.json");
}

}  // namespace

BOOST_AUTO_TEST_CASE(scores_and_texts_are_those_of_transformers) {
  for_each_folder([](const fs::path& folder) {
    const Expected expected = expected_of(folder);
    const Pretrained read = load(folder);
    for (const int threads : {1, 2, 5}) {
      set_num_threads(threads);
      const Inference guard;
      BOOST_CHECK_LT(difference(read.model(one(expected.ids)), expected), 5e-5);
      BOOST_CHECK_LT(difference(scores_with_cache(read.model, expected.ids, {11, 1, 1, 9, 1, 1}), expected), 5e-5);
      BOOST_TEST(greedy(read.model, expected) == expected.greedy, boost::test_tools::per_element());
    }
    set_num_threads(1);
    BOOST_TEST(greedy_without_cache(read.model, expected) == expected.greedy, boost::test_tools::per_element());
  });
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_finite_differences) {
  for_each_folder([](const fs::path& folder) {
    const Expected expected = expected_of(folder);
    const Pretrained read = load(folder);
    const std::vector<int> starts{0};
    const auto report =
        test::check_gradients(*read.parameters, [&] { return window_loss(read.model, expected.ids, starts, 12).loss; });
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  });
}

BOOST_AUTO_TEST_CASE(what_is_written_is_what_was_read) {
  for_each_folder([&](const fs::path& folder) {
    const TemporaryFolder written;
    const Expected expected = expected_of(folder);
    const Pretrained read = load(folder);
    save_pretrained(written.path, read.config, *read.parameters);
    const Pretrained again = load_pretrained(written.path);
    const Inference guard;
    const Tensor before = read.model(one(expected.ids));
    const Tensor after = again.model(one(expected.ids));
    BOOST_CHECK(std::ranges::equal(before.values(), after.values()));
    BOOST_CHECK(again.config.bos == read.config.bos && again.config.stops == read.config.stops);
  });
}

BOOST_AUTO_TEST_CASE(every_family_is_written_and_read) {
  const std::vector<int> ids{1, 4, 2, 8, 5, 7, 12, 0, 3};
  for_each_family([&](Architecture architecture) {
    const TemporaryFolder folder;
    const HfConfig config = small(architecture);
    Parameters parameters(3);
    const LanguageModel model(parameters.root(), config.model);
    RandomStream random(5, Purpose::test);
    for (real& value : parameters.edit()) value = static_cast<real>(0.3 * random.normal());
    save_pretrained(folder.path, config, parameters);
    const Pretrained again = load_pretrained(folder.path);
    BOOST_CHECK(again.config.architecture == architecture);
    for (const auto& entry : parameters.entries())
      BOOST_CHECK(std::ranges::equal(again.parameters->find(entry.name)->tensor.values(), entry.tensor.values()));
    const Inference guard;
    const Tensor expected = model(one(ids));
    BOOST_CHECK(std::ranges::equal(again.model(one(ids)).values(), expected.values()));
    const Tensor pieces = scores_with_cache(again.model, ids, {4, 1, 3, 1});
    for (std::size_t i = 0; i < expected.numel(); ++i)
      BOOST_CHECK_SMALL(double{pieces.values()[i]} - double{expected.values()[i]}, 20 * test::kTolerance);
  });
}

BOOST_AUTO_TEST_CASE(what_is_not_known_is_refused_by_name) {
  const TemporaryFolder folder;
  for_each_family([&](Architecture architecture) {
    for (const char* key : {"nobody_knows", "quantization_config", "qk_norm", "vision_config"}) {
      nlohmann::json config = config_of(architecture);
      config[key] = {{"bits", 4}};
      const auto names_it = [&](const FormatError& e) {
        return std::string(e.what()).find("'" + std::string(key) + "'") != std::string::npos;
      };
      BOOST_CHECK_EXCEPTION(read(folder, config), FormatError, names_it);
    }
  });
  const std::tuple<Architecture, const char*, nlohmann::json> refused[] = {
      {Architecture::falcon, "alibi", true},
      {Architecture::falcon, "num_ln_in_parallel_attn", "x"},
      {Architecture::cohere, "use_qk_norm", true},
      {Architecture::stablelm, "qk_layernorm", true},
      {Architecture::opt, "do_layer_norm_before", false},
      {Architecture::opt, "_remove_final_layer_norm", true},
      {Architecture::opt, "word_embed_proj_dim", 8},
      {Architecture::bloom, "apply_residual_connection_post_layernorm", true},
      {Architecture::gpt2, "scale_attn_by_inverse_layer_idx", true},
      {Architecture::gemma, "use_bidirectional_attention", true},
      {Architecture::gemma2, "query_pre_attn_scalar", 0},
      {Architecture::gemma2, "final_logit_softcapping", -1},
      {Architecture::granite, "logits_scaling", 0},
      {Architecture::granite, "attention_multiplier", -1},
      {Architecture::mistral, "sliding_window", 0},
      {Architecture::qwen2, "layer_types", {"full_attention"}},
      {Architecture::qwen2, "layer_types", {"full_attention", "sliding_attention"}},  // there is no window
      {Architecture::qwen2, "layer_types", {"full_attention", "chunked_attention"}},
      {Architecture::smollm3, "no_rope_layers", {1, 2}},
      {Architecture::llama, "num_hidden_layers", 1 << 30},
      {Architecture::mistral, "num_hidden_layers", 1 << 30},
      {Architecture::mixtral, "num_experts_per_tok", -1},
      {Architecture::llama, "partial_rotary_factor", 0.5},
      {Architecture::phi3, "rope_scaling", {{"type", "longrope"}}}};
  for (const auto& [architecture, key, value] : refused) BOOST_TEST_CONTEXT(key << ' ' << value) {
      nlohmann::json config = config_of(architecture);
      config[key] = value;
      BOOST_CHECK_THROW(read(folder, config), FormatError);
    }
}

// Names of keys in files of earlier versions, and what missing keys mean.
BOOST_AUTO_TEST_CASE(older_names_and_missing_keys) {
  const TemporaryFolder folder;
  const auto changed = [&](Architecture architecture, const nlohmann::json& other, std::vector<const char*> missing) {
    nlohmann::json config = config_of(architecture);
    for (const char* key : missing) config.erase(key);
    config.update(other.is_null() ? nlohmann::json::object() : other);
    return read(folder, config).model;
  };
  LanguageModelConfig m = changed(Architecture::bloom, {{"n_embed", 24}, {"num_attention_heads", 3}},
                                  {"hidden_size", "n_head", "seq_length", "n_inner"});
  BOOST_CHECK(m.layer.d_model == 24 && m.layer.n_heads == 3 && m.layer.d_ff == 96 && m.max_length == 2048);
  m = changed(Architecture::gpt_neox, {{"partial_rotary_factor", 0.5}, {"rope_theta", 7}},
              {"rotary_pct", "rotary_emb_base", "rope_parameters"});
  BOOST_CHECK(m.decoder.rope.share == 0.5 && m.rope_theta == 7);
  m = changed(Architecture::gemma, {{"hidden_act", "gelu"}, {"hidden_activation", "gelu_pytorch_tanh"}}, {"head_dim"});
  BOOST_CHECK(m.layer.activation == Activation::geglu_tanh && m.layer.head_width == 256);
  m = changed(Architecture::gemma2, {{"sliding_window", 5}}, {"layer_types"});
  BOOST_CHECK(m.decoder.attention(0).window == 5 && m.decoder.attention(1).window == 0);
  m = changed(Architecture::gemma3_text, {{"sliding_window", 5}, {"sliding_window_pattern", 2}}, {"layer_types"});
  BOOST_CHECK(m.decoder.attention(0).window == 5 && m.decoder.attention(0).positions == LayerPositions::local);
  BOOST_CHECK(m.decoder.attention(1).window == 0 && m.decoder.attention(1).positions == LayerPositions::common);
  m = changed(Architecture::qwen2, {{"sliding_window", 5}, {"use_sliding_window", true}, {"max_window_layers", 1}},
              {"layer_types"});
  BOOST_CHECK(m.decoder.attention(0).window == 0 && m.decoder.attention(1).window == 5);
  m = changed(Architecture::smollm3, {{"no_rope_layer_interval", 2}}, {"no_rope_layers"});
  BOOST_CHECK(m.decoder.attention(0).positions == LayerPositions::common);
  BOOST_CHECK(m.decoder.attention(1).positions == LayerPositions::none);
  BOOST_CHECK_EQUAL(changed(Architecture::mistral, {}, {"sliding_window"}).decoder.attention(1).window, 4096);
  m = changed(Architecture::falcon, {{"new_decoder_architecture", true}, {"num_kv_heads", 2}},
              {"num_ln_in_parallel_attn"});
  BOOST_CHECK(m.decoder.sublayers == Sublayers::side_by_side && m.layer.n_kv_heads == 2);
}

BOOST_AUTO_TEST_CASE(scaled_positions_are_read_in_both_forms) {
  const TemporaryFolder folder;
  nlohmann::json config = config_of(Architecture::llama);
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 3}};
  BOOST_CHECK(
      (read(folder, config).model.decoder.rope.scaling == RotaryScaling{.kind = RotaryScale::linear, .factor = 3}));
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 4}, {"rope_theta", 500}};
  const HfConfig yarn = read(folder, config);
  BOOST_CHECK_EQUAL(yarn.model.rope_theta, 500);
  BOOST_CHECK((yarn.model.decoder.rope.scaling == RotaryScaling{.kind = RotaryScale::yarn,
                                                                .factor = 4,
                                                                .original_length = 16,
                                                                .slow = 1,
                                                                .fast = 32,
                                                                .length = yarn_length(4)}));
  BOOST_CHECK(read(folder, to_json(yarn)).model.decoder.rope == yarn.model.decoder.rope);
  HfConfig scaled = yarn;  // what is written is read, away from the defaults
  for (const RotaryScale kind : {RotaryScale::linear, RotaryScale::llama3, RotaryScale::yarn}) {
    const bool is_yarn = kind == RotaryScale::yarn;
    RotaryScaling& usual = scaled.model.decoder.rope.scaling = {.kind = kind, .factor = 3};
    if (kind != RotaryScale::linear) usual = {kind, 3, 32, 2, 20, !is_yarn, is_yarn ? 0.7 : 1};
    BOOST_CHECK(read(folder, to_json(scaled)).model.decoder.rope == scaled.model.decoder.rope);
  }
  for (const double all_dims : {0.0, 1.0, 0.7}) {  // DeepSeek's two, which count only together
    config["rope_parameters"] = {
        {"rope_type", "yarn"}, {"factor", 40}, {"mscale", 0.5}, {"mscale_all_dim", all_dims}, {"rope_theta", 500}};
    const auto length = [](double scale) { return 0.1 * scale * std::log(40) + 1; };
    const double expected = all_dims == 0 ? length(1) : length(0.5) / length(all_dims);
    BOOST_CHECK_CLOSE(read(folder, config).model.decoder.rope.scaling.length, expected, 1e-9);
  }
  config["rope_parameters"] = {
      {"rope_type", "dynamic"}, {"factor", 4}, {"original_max_position_embeddings", 8}, {"rope_theta", 500}};
  BOOST_CHECK_THROW(read(folder, config), FormatError);
}
