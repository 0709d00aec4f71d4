// Adapters in the format of the package peft: what is written, and what is read, compared with their formula.
#include <seppo/autograd/core/check.h>
#include <seppo/models/hugging_face/peft.h>
#include <seppo/models/hugging_face/peft_config.h>
#include <seppo/models/hugging_face/pretrained.h>

#include "support/program.h"
#include "support/stored.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace seppo;
using nlohmann::json;
using test::read_stored;
using test::Stored;
using test::StoredTensor;
using test::write_stored;

namespace {

constexpr double kTolerance = sizeof(real) == 4 ? 1e-6 : 1e-14;

HfConfig small(Architecture architecture) {
  HfConfig config{.architecture = architecture};
  set_architecture(architecture, config.model);
  config.model.vocabulary = 11;
  config.model.layer.d_model = 8;
  config.model.layer.n_heads = 4;
  if (has_kv_heads(architecture)) config.model.layer.n_kv_heads = 2;
  config.model.layer.d_ff = 12;
  config.model.layer.dropout = 0;
  config.model.n_layers = 2;
  config.model.max_length = 16;
  return config;
}

struct Small {
  HfConfig config;
  Parameters parameters{3};
  LanguageModel model;

  explicit Small(Architecture architecture) : config(small(architecture)), model(parameters.root(), config.model) {}

  std::vector<real> weight(const std::string& name) const {
    const auto values = parameters.find(name)->tensor.values();
    return {values.begin(), values.end()};
  }
  std::vector<real> values() const { return {parameters.values().begin(), parameters.values().end()}; }
};

void randomise(const Adapters& adapters, std::mt19937& random) {
  std::normal_distribution<double> normal;
  for (const Adapters::Adapter& adapter : adapters.each())
    for (std::size_t i = 0; i < adapter.low_rank->b.numel(); ++i)
      adapter.low_rank->b.data()[i] = static_cast<real>(normal(random));
}

struct Matrix {
  int rows, columns;
  std::vector<double> values;
};

Matrix drawn(int rows, int columns, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Matrix m{rows, columns, {}};
  for (int i = 0; i < rows * columns; ++i) m.values.push_back(normal(random));
  return m;
}

// "F64", so that both precisions read the same numbers.
StoredTensor stored(const std::string& name, const Matrix& m) {
  const auto bytes = std::as_bytes(std::span(m.values));
  return {name, "F64", {m.rows, m.columns}, {bytes.begin(), bytes.end()}};
}

// scale B A
std::vector<double> product(const Matrix& b, const Matrix& a, double scale) {
  std::vector<double> sum(static_cast<std::size_t>(b.rows * a.columns));
  for (int i = 0; i < b.rows; ++i)
    for (int j = 0; j < a.columns; ++j)
      for (int k = 0; k < a.rows; ++k)
        sum[static_cast<std::size_t>(i * a.columns + j)] += scale *
                                                            b.values[static_cast<std::size_t>(i * b.columns + k)] *
                                                            a.values[static_cast<std::size_t>(k * a.columns + j)];
  return sum;
}

const std::string kLayer = "base_model.model.model.layers.1.";

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  for (std::size_t i = 0; i < enum_names(Architecture{}).size(); ++i) {
    const auto architecture = static_cast<Architecture>(i);
    const bool rslora = i % 2 == 1;
    const test::Folder folder("peft");
    Small one(architecture);
    const std::size_t model_size = one.values().size();
    const Adapters adapters(one.parameters, one.model, {.lora = 3, .alpha = 7, .rslora = rslora});
    std::mt19937 random(1);
    randomise(adapters, random);
    save_peft(folder.path, adapters, one.config, "base");
    BOOST_CHECK(has_peft(folder.path) && !has_peft(folder.path / "none"));
    adapters.merge();
    Small other(architecture);
    read_peft(folder.path, other.config, other.parameters, other.model).merge();
    const std::vector<real> written = one.values();
    const std::vector<real> read = other.values();
    BOOST_TEST_CONTEXT(enum_names(architecture)[i]) {
      // A projection that shares a module with another one is read with the A of both; the scale of experts is rounded.
      const bool is_rounded = architecture == Architecture::phi3 || architecture == Architecture::mixtral;
      const double most = is_rounded ? 10 * kTolerance : 0;
      for (std::size_t j = 0; j < model_size; ++j)
        BOOST_REQUIRE_SMALL(double{written[j]} - double{read[j]}, std::max(most, 1e-300));
    }
  }
}

// The names and keys that peft writes itself.
BOOST_AUTO_TEST_CASE(the_files_are_pefts) {
  const test::Folder folder("peft");
  Small one(Architecture::llama);
  save_peft(folder.path, Adapters(one.parameters, one.model, {.lora = 3, .alpha = 7}), one.config, "base");
  const Stored written = read_stored(folder.path / "adapter_model.safetensors");
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const StoredTensor& tensor : written.tensors) shapes[tensor.name] = tensor.shape;
  BOOST_CHECK_EQUAL(shapes.size(), 2 * 7 * 2);
  using Sizes = std::vector<std::int64_t>;
  BOOST_CHECK((shapes.at(kLayer + "self_attn.q_proj.lora_A.weight") == Sizes{3, 8}));
  BOOST_CHECK((shapes.at(kLayer + "self_attn.q_proj.lora_B.weight") == Sizes{8, 3}));
  BOOST_CHECK((shapes.at(kLayer + "self_attn.v_proj.lora_B.weight") == Sizes{4, 3}));
  BOOST_CHECK((shapes.at(kLayer + "mlp.down_proj.lora_A.weight") == Sizes{3, 12}));
  BOOST_CHECK((shapes.at(kLayer + "mlp.down_proj.lora_B.weight") == Sizes{8, 3}));
  const json config = json::parse(test::read(folder.path / "adapter_config.json"));
  const json targets{"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"};
  BOOST_CHECK(config["peft_type"] == "LORA" && config["task_type"] == "CAUSAL_LM" && config["r"] == 3);
  BOOST_CHECK(config["lora_alpha"] == 7 && config["target_modules"] == targets && config["fan_in_fan_out"] == false);
  BOOST_CHECK(config["bias"] == "none" && config["base_model_name_or_path"] == "base");

  Small gpt2(Architecture::gpt2);
  save_peft(folder.path, Adapters(gpt2.parameters, gpt2.model, {.lora = 3}), gpt2.config);
  shapes.clear();
  for (const StoredTensor& tensor : read_stored(folder.path / "adapter_model.safetensors").tensors)
    shapes[tensor.name] = tensor.shape;
  BOOST_CHECK((shapes.at("base_model.model.transformer.h.1.attn.c_attn.lora_B.weight") == Sizes{24, 3}));
  BOOST_CHECK((shapes.at("base_model.model.transformer.h.1.mlp.c_fc.lora_A.weight") == Sizes{3, 8}));
  const json of_gpt2 = json::parse(test::read(folder.path / "adapter_config.json"));
  BOOST_CHECK(of_gpt2["fan_in_fan_out"] == true && of_gpt2["base_model_name_or_path"].is_null());
}

// Some modules alone, each with a rank and an alpha of its own.
BOOST_AUTO_TEST_CASE(modules_of_a_stack_have_adapters_of_their_own) {
  const test::Folder folder("peft");
  std::mt19937 random(2);
  const Matrix qa = drawn(2, 8, random), qb = drawn(8, 2, random), va = drawn(3, 8, random), vb = drawn(4, 3, random),
               ua = drawn(1, 8, random), ub = drawn(12, 1, random);
  write_stored(
      folder.path / "adapter_model.safetensors",
      {{},
       {stored(kLayer + "self_attn.q_proj.lora_A.weight", qa), stored(kLayer + "self_attn.q_proj.lora_B.weight", qb),
        stored(kLayer + "self_attn.v_proj.lora_A.weight", va), stored(kLayer + "self_attn.v_proj.lora_B.weight", vb),
        stored(kLayer + "mlp.up_proj.lora_A.weight", ua), stored(kLayer + "mlp.up_proj.lora_B.weight", ub)}});
  for (const bool rslora : {false, true}) {
    const json config{{"peft_type", "LORA"},
                      {"r", 2},
                      {"lora_alpha", 5},
                      {"rank_pattern", {{"v_proj", 3}}},
                      {"alpha_pattern", {{"self_attn.v_proj", 6}}},
                      {"use_rslora", rslora}};
    folder.write("adapter_config.json", config.dump());
    Small small(Architecture::llama);
    const std::vector<real> in_proj = small.weight("layers.1.self_attn.in_proj.weight");
    const std::vector<real> up = small.weight("layers.1.ffn.up.weight");
    const std::vector<real> down = small.weight("layers.1.ffn.down.weight");
    read_peft(folder.path, small.config, small.parameters, small.model).merge();
    const auto scale = [&](double alpha, double rank) { return alpha / (rslora ? std::sqrt(rank) : rank); };
    const auto check = [&](const char* name, const std::vector<real>& before, std::size_t row,
                           const std::vector<double>& change) {
      const std::vector<real> after = small.weight(name);
      for (std::size_t i = 0; i < change.size(); ++i)
        BOOST_REQUIRE_SMALL(double{after[row * 8 + i]} - double{before[row * 8 + i]} - change[i], kTolerance * 10);
    };
    check("layers.1.self_attn.in_proj.weight", in_proj, 0, product(qb, qa, scale(5, 2)));
    check("layers.1.self_attn.in_proj.weight", in_proj, 8, std::vector<double>(4 * 8, 0));  // keys: none
    check("layers.1.self_attn.in_proj.weight", in_proj, 12, product(vb, va, scale(6, 3)));
    check("layers.1.ffn.up.weight", up, 0, product(ub, ua, scale(5, 1)));
    BOOST_CHECK(small.weight("layers.1.ffn.down.weight") == down);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_lora_here_is_refused) {
  const test::Folder folder("peft");
  Small one(Architecture::llama);
  save_peft(folder.path, Adapters(one.parameters, one.model, {.lora = 2}), one.config);
  const std::string good = test::read(folder.path / "adapter_config.json");
  const Stored weights = read_stored(folder.path / "adapter_model.safetensors");
  const auto refused = [&](const std::string& part) {
    Small small(Architecture::llama);
    BOOST_CHECK_EXCEPTION(read_peft(folder.path, small.config, small.parameters, small.model), FormatError,
                          [&](const FormatError& e) {
                            BOOST_TEST_MESSAGE(e.what());
                            return std::string(e.what()).find(part) != std::string::npos;
                          });
  };
  const auto with_key = [&](const char* key, const json& value, const std::string& part) {
    json config = json::parse(good);
    config[key] = value;
    folder.write("adapter_config.json", config.dump());
    refused("adapter_config.json: '" + std::string(key) + part);
  };
  with_key("peft_type", "IA3", "': \"IA3\" is not supported");
  with_key("task_type", "SEQ_CLS", "'");
  with_key("use_dora", true, "': true is not supported");
  with_key("bias", "all", "': \"all\"");
  with_key("modules_to_save", {"lm_head"}, "'");
  with_key("layer_replication", {{0, 1}}, "'");
  with_key("a_new_kind", 3, "': 3 is not supported");
  const json object{{"a", 1}}, list{1, 2};
  for (const auto& [key, value] : std::map<const char*, json>{{"alora_invocation_tokens", list},
                                                              {"arrow_config", object},
                                                              {"kasa_config", object},
                                                              {"lora_bias", true},
                                                              {"megatron_config", object},
                                                              {"monteclora_config", object},
                                                              {"target_parameters", {"mlp.experts.down_proj"}},
                                                              {"trainable_token_indices", list},
                                                              {"use_bdlora", object},
                                                              {"use_qalora", true},
                                                              {"velora_config", object}})
    with_key(key, value, "': " + value.dump() + " is not supported");
  with_key("lora_alpha", "x", "' is no number");
  with_key("lora_alpha", 1e9, "': 1e+09 is not within 1e-6 and 1e6");
  for (const char* changes_the_base : {"pissa", "pissa_niter_4", "olora", "loftq", "corda", "lora_ga"})
    with_key("init_lora_weights", changes_the_base, "': \"" + std::string(changes_the_base) + "\" is not supported");
  with_key("alpha_pattern", {{"^model.*(q|k)", 4}}, "': '^model");
  with_key("alpha_pattern", {{"q_proj", "x"}}, "'");
  with_key("alpha_pattern", {{"q_proj", 1}, {"self_attn.q_proj", 2}}, "': 'q_proj' and 'self_attn.q_proj' are both of");
  folder.write("adapter_config.json", "[]");
  refused("is no object");
  folder.write("adapter_config.json", good);

  const auto with_tensors = [&](const std::function<void(Stored&)>& change, const std::string& part) {
    Stored changed = weights;
    change(changed);
    write_stored(folder.path / "adapter_model.safetensors", changed);
    refused(part);
  };
  const auto renamed = [](const std::string& to) { return [to](Stored& all) { all.tensors[0].name = to; }; };
  with_tensors(renamed("base_model.model.lm_head.lora_A.weight"), "");
  with_tensors([](Stored& all) { all.tensors.erase(all.tensors.begin()); }, "has no ");
  with_tensors([](Stored& all) { all.tensors[0].shape = {12, 2}; }, "is [12,2], not [r,12]");
  with_tensors([](Stored& all) { all.tensors[0].shape = {24}; }, "is [24], not [r,12]");
  with_tensors(
      [](Stored& all) {
        all.tensors.push_back(all.tensors[0]);
        all.tensors.back().name = "base_model.model.lm_head.lora_A.weight";
      },
      "the model has no base_model.model.lm_head.lora_A.weight");
  std::filesystem::remove(folder.path / "adapter_model.safetensors");
  Small small(Architecture::llama);
  BOOST_CHECK_THROW(read_peft(folder.path, small.config, small.parameters, small.model), FileError);
}

// What is left out has peft's defaults; how adapters were found or trained does not matter.
BOOST_AUTO_TEST_CASE(keys_that_are_missing_and_keys_without_effect) {
  const test::Folder folder("peft");
  const auto read = [&](const json& config) {
    folder.write("adapter_config.json", config.dump());
    return read_peft_config(folder.path / "adapter_config.json");
  };
  const PeftConfig brief = read({{"peft_type", "LORA"}, {"task_type", "CAUSAL_LM"}, {"r", 4}});
  BOOST_CHECK(brief.alpha == 8 && !brief.rslora && brief.alphas.empty());
  BOOST_CHECK_EQUAL(brief.scale("model.layers.0.mlp.up_proj", 4), 2);
  json full{{"peft_type", "LORA"}, {"task_type", "CAUSAL_LM"}, {"lora_alpha", 6}, {"use_rslora", true}};
  BOOST_CHECK_EQUAL(read(full).scale("model.layers.0.mlp.up_proj", 4), 3);
  const json object{{"a", 1}}, list{1, 2};
  for (const auto& [key, value] : std::map<const char*, json>{{"corda_config", object},
                                                              {"ensure_weight_tying", true},
                                                              {"eva_config", object},
                                                              {"exclude_modules", "x"},
                                                              {"inference_mode", false},
                                                              {"layers_pattern", "h"},
                                                              {"layers_to_transform", list},
                                                              {"loftq_config", object},
                                                              {"lora_dropout", 0.3},
                                                              {"qalora_group_size", 16},
                                                              {"runtime_config", object}})
    full[key] = value;
  BOOST_CHECK_EQUAL(read(full).scale("model.layers.0.mlp.up_proj", 4), 3);
}

BOOST_AUTO_TEST_CASE(adapters_that_are_not_finite_are_not_written) {
  const test::Folder folder("peft");
  Small one(Architecture::llama);
  const Adapters adapters(one.parameters, one.model, {.lora = 2});
  adapters.each()[0].low_rank->a.data()[3] = NAN;
  BOOST_CHECK_THROW(save_peft(folder.path, adapters, one.config), NumericError);
  BOOST_CHECK(!has_peft(folder.path));
  const auto some = [](const std::string& path) { return Adapters::Size{path.ends_with("up") ? 1 : 0, 1}; };
  Small two(Architecture::llama);
  BOOST_CHECK_THROW(save_peft(folder.path, Adapters(two.parameters, two.model, some), two.config), ArgumentError);
}
