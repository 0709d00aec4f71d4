// The networks of the report pages, in JavaScript: their logits and attention are the programs'.
// needs: programs: addsub reverse count odd_one charlm
#include "addsub/model.h"
#include "app/page_network.h"
#include "count/model.h"
#include "odd_one/model.h"
#include "reverse/model.h"
#include "support/paths.h"
#include "support/program.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/tools/attention_recorder.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/io/model_file.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdlib>

using namespace test;
using nlohmann::json;
using seppo::Ragged;
using seppo::Tensor;

namespace {

bool node_is_missing() {
  const bool is_missing = std::system("node --version >/dev/null 2>&1") != 0;
  if (is_missing) BOOST_TEST_MESSAGE("skipped: node is not installed");
  return is_missing;
}

Ragged one(const std::vector<int>& ids) {
  Ragged sequence;
  sequence.add(ids);
  return sequence;
}

// What the program's model computes for one input: {"text", "logits", "maps"}.
template <class F>
json computed(const std::string& text, const F& forward) {
  seppo::AttentionRecorder recorder;
  const seppo::Inference guard;
  const seppo::Observe scope(recorder);
  const Tensor logits = forward();
  json maps = json::array();
  for (const seppo::AttentionMap& map : recorder.maps) maps.push_back({{"name", map.name}, {"weights", map.weights}});
  return {
      {"text", text}, {"logits", std::vector<float>(logits.values().begin(), logits.values().end())}, {"maps", maps}};
}

// A model that was trained for a few steps, with a page; page_network.js compares what this page computes.
struct Trained {
  Folder folder{"page_network"};

  explicit Trained(std::vector<std::string> command) {
    command.insert(command.end(), {"--max-steps", "30", "--report", "--log-format", "none", "--out", "m"});
    const Result result = folder.run(command);
    BOOST_REQUIRE_MESSAGE(result.code == 0, result.err);
  }
  template <class Model>
  seppo::SavedModel<Model> load() const {
    return seppo::load_model<Model>(folder.path / "m/model.safetensors");
  }
  void check(const std::vector<json>& cases) const {
    folder.write("cases.json", json(cases).dump());
    run_script("compare.js", "cases.json");
  }
  void run_script(const std::string& name, const std::string& file) const {
    const std::string script = source_folder() + "/tests/page/" + name, page = (folder.path / "m/report.html").string();
    const std::string command = "node '" + script + "' '" + page + "' '" + (folder.path / file).string() + "'";
    BOOST_CHECK_MESSAGE(std::system(command.c_str()) == 0, command);
  }
};

void check_addsub(const std::vector<std::string>& options) {
  std::vector<std::string> command{"addsub", "train", "--lr", "0.01", "--warmup-steps", "0"};
  command.insert(command.end(), options.begin(), options.end());
  const Trained trained(command);
  const auto saved = trained.load<addsub::Model>();
  std::vector<json> cases;
  for (int index = 5; index < addsub::expressions(); index += 1801) {
    const addsub::Expression e = addsub::Expression::of(index);
    const auto tokens = e.source();
    const Ragged source = one({tokens.begin(), tokens.end()});
    std::vector<int> read{addsub::kBos};
    {
      const seppo::Inference guard;
      const std::vector<int> answer = addsub::answers(saved.model, source)[0];
      read.insert(read.end(), answer.begin(), answer.end() - 1);
    }
    cases.push_back(computed(e.arithmetic(), [&] { return saved.model.transformer.logits(source, one(read)); }));
  }
  trained.check(cases);
}

void check_reverse(const std::vector<std::string>& options) {
  std::vector<std::string> command{"reverse", "train"};
  command.insert(command.end(), options.begin(), options.end());
  const Trained trained(command);
  const auto saved = trained.load<reversal::Model>();
  const auto forward = [&] { return saved.model(one({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3})); };
  trained.check({computed("3141592653589793", forward)});
}

void check_reverse_by_decoder(const std::vector<std::string>& options) {
  std::vector<std::string> command{"reverse", "train", "--architecture", "encoder-decoder"};
  command.insert(command.end(), options.begin(), options.end());
  const Trained trained(command);
  const auto saved = trained.load<reversal::Model>();
  const Ragged source = one({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3});
  Ragged read;
  {
    const seppo::Inference guard;
    read = reversal::read_for(saved.model.answers(source));
  }
  trained.check({computed("3141592653589793", [&] { return saved.model.transformer->logits(source, read); })});
}

void check_count(const std::vector<std::string>& options) {
  std::vector<std::string> command{"count", "train"};
  command.insert(command.end(), options.begin(), options.end());
  const Trained trained(command);
  const auto saved = trained.load<count::Model>();
  trained.check({computed("0 3 0 15 2", [&] { return saved.model(one({0, 3, 0, 15, 2})); })});
}

void check_odd_one(const std::vector<std::string>& options) {
  std::vector<std::string> command{"odd_one", "train", "--d-model", "16"};
  command.insert(command.end(), options.begin(), options.end());
  const Trained trained(command);
  const auto saved = trained.load<odd_one::Model>();
  const odd_one::World world(0, saved.model.config.world);
  trained.check({computed("20003", [&] { return saved.model(world.sets(std::vector{20'003}).elements); })});
}

void check_charlm(const std::vector<std::string>& options) {
  const Folder texts("page_network_text");
  texts.write("t", std::string(50, 'a') + "bcab\nca b" + std::string(300, 'c'));
  std::vector<std::string> command{"charlm", "train", "--data", (texts.path / "t").string(), "--block", "8"};
  command.insert(command.end(), options.begin(), options.end());
  const Trained trained(command);
  const auto saved = trained.load<seppo::LanguageModel>();
  const std::vector<std::string> vocabulary = saved.config["vocabulary"];
  std::vector<int> ids;
  for (const char c : std::string("ab\nc a"))
    ids.push_back(static_cast<int>(std::ranges::find(vocabulary, std::string(1, c)) - vocabulary.begin()));
  trained.check({computed("ab⏎c a", [&] { return slice(saved.model(one(ids)), 0, 5, 6); })});
}

// The steps of the page, and what each token contributes, are those of `trace`.
void check_steps(const std::vector<std::string>& options) {
  std::vector<std::string> command{"addsub", "train", "--lr", "0.01", "--warmup-steps", "0"};
  command.insert(command.end(), options.begin(), options.end());
  const Trained trained(command);
  const Result traced = trained.folder.run({"addsub", "trace", "--model", "m", "--json", "--gradients", "-30 - 7"});
  BOOST_REQUIRE_MESSAGE(traced.code == 0, traced.err);
  trained.folder.write("trace.json", traced.out);
  trained.run_script("compare_steps.js", "trace.json");
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps) {
  if (node_is_missing()) return;
  check_steps({});
  check_steps({"--norm", "pre", "--kv-heads", "2", "--no-bias", "--positions", "learned"});
  check_steps({"--head-width", "5", "--kv-heads", "2", "--no-attention-bias"});
}

BOOST_AUTO_TEST_CASE(encoders_and_decoders) {
  if (node_is_missing()) return;
  check_reverse_by_decoder({});
  check_reverse_by_decoder({"--positions", "simple", "--layers", "2", "--heads", "4"});
  check_addsub({});
  check_addsub({"--norm", "pre", "--activation", "swiglu", "--positions", "learned", "--kv-heads", "2"});
  check_addsub(
      {"--norm-kind", "rms", "--activation", "gelu_tanh", "--positions", "binary", "--no-bias", "--enc-layers", "1"});
}

BOOST_AUTO_TEST_CASE(activations) {
  if (node_is_missing()) return;
  for (const std::string name : enum_names(seppo::Activation())) check_count({"--activation", name});
}

BOOST_AUTO_TEST_CASE(encoders) {
  if (node_is_missing()) return;
  check_reverse({});
  check_reverse({"--preset", "plain"});
  check_reverse({"--head-width", "5", "--heads", "2", "--no-attention-bias"});
  check_reverse({"--norm-kind", "rms"});
  check_reverse({"--norm", "pre", "--activation", "geglu", "--heads", "4", "--positions", "none"});
  check_count({});
  check_count({"--pooling", "mean", "--question", "largest", "--positions", "cosinusoid"});
  check_count({"--pooling", "max", "--question", "most-frequent", "--activation", "silu", "--norm-kind", "rms"});
}

BOOST_AUTO_TEST_CASE(sets) {
  if (node_is_missing()) return;
  check_odd_one({});
  check_odd_one({"--norm-kind", "rms"});
}

BOOST_AUTO_TEST_CASE(decoders) {
  if (node_is_missing()) return;
  check_charlm({});
  check_charlm({"--positions", "sinusoid", "--no-tie-output", "--bias", "--layers", "2"});
}

// Attention of a kind that network.js does not know: no network on the page, rather than a wrong one.
BOOST_AUTO_TEST_CASE(attention_of_other_kinds) {
  const auto is_on_page = [](const seppo::MultiHeadAttentionOptions& options, const json& config) {
    seppo::Parameters parameters(1);
    const seppo::MultiHeadAttention attention(parameters.root() / "encoder" / 0 / "self_attn", 8, 2, options);
    return !examples::to_json({.config = config, .task = {{"name", "reverse"}}}, parameters).is_null();
  };
  const json config = {{"d_model", 8}, {"n_heads", 2}};
  const auto with = [&](const char* key, double value) {
    json changed = config;
    changed[key] = value;
    return changed;
  };
  BOOST_CHECK(is_on_page({}, config));
  BOOST_CHECK(is_on_page({.n_kv_heads = 1}, with("n_kv_heads", 1)));
  BOOST_CHECK(!is_on_page({.head_width = 3}, config));
  BOOST_CHECK(!is_on_page({.head_width = 6}, config));
  BOOST_CHECK(is_on_page({.head_width = 6}, with("head_width", 6)));
  BOOST_CHECK(!is_on_page({.head_width = 3}, with("head_width", 6)));
  BOOST_CHECK(!is_on_page({.qk_norm = seppo::QkNorm::head}, config));
  BOOST_CHECK(!is_on_page({.qk_norm = seppo::QkNorm::width}, config));
  BOOST_CHECK(!is_on_page({.k_dim = 8, .v_dim = 8}, config));
  BOOST_CHECK(!is_on_page({.window = 3}, with("window", 3)));
  BOOST_CHECK(!is_on_page({.softcap = 30}, with("softcap", 30)));
}

// Positions that act within attention are not computed there: such a page has no network.
BOOST_AUTO_TEST_CASE(relative_positions) {
  const Folder folder("page_network");
  folder.write("t", std::string(200, 'a') + "b");
  for (const std::string positions : {"rotary", "alibi", "learned"}) {
    const Result r =
        folder.run({"charlm", "train", "--data", "t", "--block", "8", "--layers", "1", "--positions", positions,
                    "--max-steps", "1", "--report", "--log-format", "none", "--out", positions});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    const std::string page = read(folder.path / positions / "report.html");
    BOOST_CHECK_EQUAL(page.find("\"network\":null") != page.npos, positions != "learned");
  }
}
