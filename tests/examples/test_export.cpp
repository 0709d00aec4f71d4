// Models of the programs as ONNX graphs, and the command that writes them.
// needs: programs: inspect reverse llm
#include "addsub/model.h"
#include "count/model.h"
#include "llm/conversations.h"
#include "models/onnx_cases.h"
#include "odd_one/model.h"
#include "reverse/model.h"
#include "support/llm_models.h"
#include "support/program.h"

#include <seppo/nn/io/gguf.h>
#include <seppo/nn/io/model_file.h>

#include <nlohmann/json.hpp>

#include <numeric>
#include <random>

using namespace test;
using onnx_cases::padded;
using seppo::Ragged;

namespace {

// A model whose parameters are far from their initial values.
template <class Model, class Config>
struct Drawn {
  explicit Drawn(const Config& config) : parameters(3), model(parameters.root(), config) {
    seppo::RandomStream random(1, seppo::Purpose::test);
    for (const auto& e : parameters.entries())
      for (seppo::real& value : parameters.edit().subspan(e.offset, e.size()))
        value += static_cast<seppo::real>(0.2 * random.normal());
  }
  seppo::Parameters parameters;
  Model model;
};

Ragged sequences(int symbols, int length) {
  std::mt19937 random(7);
  Ragged all;
  for (int s = 0; s < 3; ++s) {
    std::vector<int> sequence;
    for (int i = 0; i < length; ++i) sequence.push_back(static_cast<int>(random() % static_cast<unsigned>(symbols)));
    all.add(sequence);
  }
  return all;
}

OnnxArray array(const seppo::Tensor& x) {
  return onnx_cases::array({x.shape().sizes().begin(), x.shape().sizes().end()}, x.values());
}

void check_reverse(const reversal::ModelConfig& config) {
  const Drawn<reversal::Model, reversal::ModelConfig> drawn(config);
  const Ragged digits = sequences(reversal::kSymbols, reversal::kLength);
  const seppo::Inference guard;
  onnx_cases::check(onnx_graph(drawn.model), {{"symbols", padded(digits, 0)}}, "logits",
                    padded(drawn.model(digits), digits));
}

void check_count(const count::ModelConfig& config) {
  const Drawn<count::Model, count::ModelConfig> drawn(config);
  const Ragged symbols = sequences(count::kSymbols, count::kLength);
  const seppo::Inference guard;
  onnx_cases::check(onnx_graph(drawn.model), {{"symbols", padded(symbols, 0)}}, "scores", array(drawn.model(symbols)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(reversal_by_an_encoder) {
  check_reverse({});
  check_reverse({.n_layers = 2, .positions = examples::Positions::binary, .plain = true});
}

BOOST_AUTO_TEST_CASE(reversal_by_a_decoder) {
  const Drawn<reversal::Model, reversal::ModelConfig> drawn(
      reversal::ModelConfig{.architecture = reversal::Architecture::encoder_decoder});
  const Ragged digits = sequences(reversal::kSymbols, reversal::kLength);
  const Ragged read = reversal::read_for(reversal::targets(digits, drawn.model.config.architecture));
  const seppo::Inference guard;
  onnx_cases::check(
      onnx_graph(drawn.model),
      {{"src", padded(digits, 0)}, {"src_lengths", onnx_cases::lengths(digits)}, {"tgt", padded(read, 0)}}, "logits",
      padded(drawn.model(digits), read));
}

BOOST_AUTO_TEST_CASE(counting_with_each_pooling) {
  for (const auto pooling : {examples::Pooling::class_token, examples::Pooling::mean, examples::Pooling::max})
    check_count({.pooling = pooling});
}

BOOST_AUTO_TEST_CASE(odd_ones) {
  const Drawn<odd_one::Model, odd_one::ModelConfig> drawn(odd_one::ModelConfig{.world = {.kinds = 4, .features = 6}});
  const auto sets = odd_one::World(5, drawn.model.config.world).sets(std::vector{0, 1, 2});
  const seppo::Inference guard;
  const OnnxArray elements = onnx_cases::array({3, odd_one::kElements, 6}, sets.elements.values());
  onnx_cases::check(onnx_graph(drawn.model), {{"elements", elements}}, "scores", array(drawn.model(sets.elements)));
}

BOOST_AUTO_TEST_CASE(sums) {
  addsub::ModelConfig config;
  config.dropout_place = addsub::DropoutPlace::norm;
  const Drawn<addsub::Model, addsub::ModelConfig> drawn(config);
  const Ragged src = sequences(addsub::kTokens, 7), tgt = sequences(addsub::kTokens, 4);
  const seppo::Inference guard;
  onnx_cases::check(onnx_graph(drawn.model),
                    {{"src", padded(src, 0)}, {"src_lengths", onnx_cases::lengths(src)}, {"tgt", padded(tgt, 0)}},
                    "logits", padded(drawn.model.transformer.logits(src, tgt), tgt));
}

// What the command writes is what the trained model computes, and says what it was.
BOOST_AUTO_TEST_CASE(a_trained_model) {
  const Folder folder("export");
  BOOST_REQUIRE_EQUAL(folder.run(words("reverse train --max-steps 3 --out run")).code, 0);
  const Result result = folder.run(words("seppo export run --to onnx"));
  BOOST_REQUIRE_EQUAL(result.code, 0);
  BOOST_CHECK_EQUAL(result.out,
                    "wrote run/model.onnx\ninput symbols: int64 [batch,16]\noutput logits: float32 [batch,16,10]\n");
  const OnnxFile file = read_onnx(folder.path / "run/model.onnx");
  BOOST_CHECK_EQUAL(nlohmann::json::parse(file.notes.at("seppo.config")).at("program"), "reverse");
  const auto saved = seppo::load_model<reversal::Model>(folder.path / "run/model.safetensors");
  const Ragged digits = sequences(reversal::kSymbols, reversal::kLength);
  const seppo::Inference guard;
  const OnnxArray got = run_onnx(file, {{"symbols", padded(digits, 0)}}).at("logits");
  const OnnxArray expected = padded(saved.model(digits), digits);
  for (std::size_t i = 0; i < got.v.size(); ++i) BOOST_REQUIRE_SMALL(got.v[i] - expected.v[i], 1e-5);
}

// Models of other people are llm's.
BOOST_AUTO_TEST_CASE(a_folder_of_hugging_face) {
  const Folder folder("export");
  write_model(folder, "m");
  const std::string config = read(folder.path / "m/config.json");
  folder.write("m/config.json", R"({"time_step_limit": [0.0, Infinity],)" + config.substr(1));  // as Python writes it
  const Result result = folder.run(words("seppo export m --output m.onnx"));
  BOOST_REQUIRE_EQUAL(result.code, 0);
  BOOST_CHECK_EQUAL(result.out,
                    "wrote m.onnx\ninput tokens: int64 [batch,length]\noutput logits: float32 [batch,length,257]\n");
  const OnnxFile file = read_onnx(folder.path / "m.onnx");
  const seppo::Pretrained model = seppo::load_pretrained(folder.path / "m");
  const Ragged tokens = sequences(257, 5);
  const seppo::Inference guard;
  const OnnxArray got = run_onnx(file, {{"tokens", padded(tokens, 0)}}).at("logits");
  const OnnxArray expected = padded(model.model(tokens), tokens);
  for (std::size_t i = 0; i < got.v.size(); ++i) BOOST_REQUIRE_SMALL(got.v[i] - expected.v[i], 1e-5);
}

// As a GGUF file too: the tokens of texts, how they begin and end, and what chats look like are the same.
BOOST_AUTO_TEST_CASE(a_gguf_file) {
  const Folder folder("export");
  nlohmann::json config = kLlama;
  config["vocab_size"] = 258;
  write_model(folder, "m", config);
  folder.write("m/chat_template.jinja", "{% for m in messages %}{{ m.content }}.{% endfor %}");
  const auto vocabulary = nlohmann::json::parse(read(folder.path / "m/vocab.json"));
  const nlohmann::json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto mark = [](const char* name) { return nlohmann::json{{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; };
  const auto begins_and_ends = [&](const std::vector<nlohmann::json>& single) {
    const auto named = [](const char* name, int id) {
      return nlohmann::json{{"id", name}, {"ids", {id}}, {"tokens", {name}}};
    };
    nlohmann::json all = tokenizer_json(vocabulary, false);
    all["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", single},
        {"pair", single},
        {"special_tokens", {{"<s>", named("<s>", 257)}, {"<|endoftext|>", named("<|endoftext|>", 256)}}}};
    folder.write("m/tokenizer.json", all.dump());
  };
  const Words command = words("llm export --model m --to gguf --output m.gguf");
  const std::vector<std::vector<nlohmann::json>> templates{
      {text}, {mark("<s>"), text}, {text, mark("<|endoftext|>")}, {mark("<s>"), text, mark("<|endoftext|>")}};
  for (const auto& single : templates) BOOST_TEST_CONTEXT(nlohmann::json(single)) {
      begins_and_ends(single);
      const Result result = folder.run(command);
      BOOST_REQUIRE_MESSAGE(result.code == 0, result.err);
      BOOST_CHECK_EQUAL(result.out, "wrote m.gguf\n");
      const nlohmann::json said = seppo::GgufFile(folder.path / "m.gguf").metadata();
      BOOST_CHECK_EQUAL(said.at("tokenizer.ggml.add_bos_token"), single.front() == mark("<s>"));
      const llm::Folder one = llm::open_folder(folder.path / "m"), two = llm::open_folder(folder.path / "m.gguf");
      for (const char* one_text : {"a", "once upon a time", "\xc3\xa9\n 7"})
        BOOST_TEST(two.encode(one_text) == one.encode(one_text), boost::test_tools::per_element());
      BOOST_CHECK_EQUAL(two.config.stops[0], one.config.stops[0]);
      const auto asked = [](const llm::Folder& model) {
        return llm::chat_template(model).render({{"user", "hi"}}, true);
      };
      BOOST_CHECK_EQUAL(asked(two), asked(one));
      const auto written = [&](const char* model) {
        return folder.run({"llm", "generate", "--model", model, "--prompt", "ab", "--temperature", "0"}).out;
      };
      BOOST_CHECK_EQUAL(written("m.gguf"), written("m"));
    }
  fs::remove(folder.path / "m.gguf");
  for (const auto& single : {std::vector{text, mark("<s>")}, {mark("<s>"), mark("<s>"), text}}) {
    begins_and_ends(single);
    const Result result = folder.run(command);
    BOOST_CHECK_EQUAL(result.code, 1);
    BOOST_CHECK_EQUAL(result.err, "llm: m: a GGUF file cannot say which tokens its texts begin and end with\n");
    BOOST_CHECK(!fs::exists(folder.path / "m.gguf"));
  }
}

// Of several, as Command R's tokenizer_config.json has them, a GGUF file has the one for chats without tools.
BOOST_AUTO_TEST_CASE(a_gguf_file_has_the_default_template) {
  const Folder folder("export");
  nlohmann::json config = kLlama;
  config["vocab_size"] = 258;
  write_model(folder, "m", config);
  folder.write("m/tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "other"},
                                                                 {"name": "default", "template": "chat"}]})");
  const Result result = folder.run(words("llm export --model m --to gguf --output m.gguf"));
  BOOST_REQUIRE_MESSAGE(result.code == 0, result.err);
  BOOST_CHECK_EQUAL(seppo::GgufFile(folder.path / "m.gguf").metadata().at("tokenizer.chat_template"), "chat");
}

BOOST_AUTO_TEST_CASE(what_is_refused) {
  const Folder folder("export");
  folder.write("text", "no model");
  check_refused(folder, words("seppo export"), 2, "0 models are given; export takes one");
  check_refused(folder, words("seppo export nothing"), 2, "nothing");
  check_refused(folder, words("seppo export text"), 1, "text");
  check_refused(folder, words("seppo export text --to pickle"), 2, "--to");
  check_refused(folder, words("reverse export --to gguf"), 2, "--to");
  check_refused(folder, words("reverse export"), 2, "there is no model 'runs/reverse'");
}
