// Models that Hugging Face's transformers wrote (hugging_face/README.md): the same logits; and the keys of config.json
// that change nothing, or too much.
// needs: programs: llm
#include <seppo/models/hugging_face/config_keys.h>
#include "llm/folder.h"
#include "support/program.h"

#include <seppo/autograd/core/check.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/nn/io/safetensors.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <map>
#include <span>

using namespace test;
using nlohmann::json;

namespace {

const fs::path kCases = fs::path(test::source_folder()) / "tests/examples/hugging_face/folders";

const json kTokenizer{{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                      {"model", {{"vocab", {{"a", 0}}}, {"merges", json::array()}}},
                      {"added_tokens", json::array()}};

// A copy with a tokenizer, which the cases lack.
void copy_case(const Folder& folder, const std::string& name) {
  fs::copy(kCases / name, folder.path / name);
  folder.write(name + "/tokenizer.json", kTokenizer.dump());
}

void check_refusal(const std::function<void()>& read, const std::string& part) {
  BOOST_CHECK_EXCEPTION(read(), seppo::FormatError, [&](const seppo::FormatError& e) {
    const std::string what = e.what();
    const bool is_fine = what.find(part) != what.npos && what.size() < 300 && what.find('\n') == what.npos;
    if (!is_fine) BOOST_TEST_MESSAGE("'" << part << "' is not in: " << what);
    return is_fine;
  });
}

void check_logits(const llm::Folder& model, const json& expected) {
  const seppo::Inference guard;
  seppo::Ragged input;
  input.add(expected["ids"].get<std::vector<int>>());
  const seppo::Tensor logits = model.model(input);
  double largest = 0;
  for (std::size_t i = 0; i < expected["rows"].size(); ++i) {
    const auto row = expected["rows"][i].get<std::size_t>();
    const auto width = static_cast<std::size_t>(logits.cols());
    const auto values = logits.values().subspan(row * width, width);
    for (std::size_t j = 0; j < width; ++j)
      largest = std::max(largest, std::abs(static_cast<double>(values[j]) - expected["logits"][i][j].get<double>()));
  }
  BOOST_CHECK_LT(largest, 5e-5);
  seppo::Ragged prompt;
  prompt.add(expected["prompt"].get<std::vector<int>>());
  const auto greedy = generate(model.model, prompt, {.max_tokens = 16, .sampling = {.temperature = 0}})[0];
  BOOST_TEST(greedy == expected["greedy"].get<std::vector<int>>(), boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_logits_and_texts) {
  const Folder folder("llm");
  int same = 0;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    const std::string name = entry.path().filename();
    BOOST_TEST_CONTEXT(name) {
      BOOST_CHECK_NO_THROW(seppo::read_hf_config(entry.path() / "config.json"));
      if (!fs::exists(entry.path() / "expected.json")) continue;  // tests/models/test_model_families.cpp has the others
      copy_case(folder, name);
      check_logits(llm::open_folder(folder.path / name), json::parse(read(entry.path() / "expected.json")));
      ++same;
    }
  }
  BOOST_CHECK_EQUAL(same, 2);
}

// A model whose output layer is not its embedding keeps both through a finetuning or a merge.
BOOST_AUTO_TEST_CASE(an_output_of_its_own_is_written_again) {
  const Folder folder("llm");
  for (const char* name : {"gpt2_untied", "llama_tied_but_two_heads"}) {
    copy_case(folder, name);
    const llm::Folder model = llm::open_folder(folder.path / name);
    llm::write_folder(folder.path / "again", model.config, *model.parameters, model.path);
    BOOST_CHECK(json::parse(read(folder.path / "again/config.json"))["tie_word_embeddings"] == false);
    check_logits(llm::open_folder(folder.path / "again"), json::parse(read(kCases / name / "expected.json")));
  }
}

// Beside a tied output layer, the file may have a copy of the embedding; it is one parameter all the same.
BOOST_AUTO_TEST_CASE(a_copy_of_the_embedding_is_no_other_output) {
  const Folder folder("llm");
  copy_case(folder, "llama_tied_but_two_heads");
  const fs::path path = folder.path / "llama_tied_but_two_heads";
  const seppo::SafeTensorsFile file(path / "model.safetensors");
  std::vector<std::vector<std::byte>> values;
  std::vector<seppo::TensorView> tensors;
  std::span<const std::byte> embedding;
  for (const seppo::TensorInfo& tensor : file.tensors()) {
    values.emplace_back(tensor.bytes());
    file.read(tensor, values.back());
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, values.back()});
    if (tensor.name == "model.embed_tokens.weight") embedding = tensors.back().bytes;
  }
  for (seppo::TensorView& tensor : tensors)
    if (tensor.name == "lm_head.weight") tensor.bytes = embedding;
  seppo::write_safetensors(path / "model.safetensors", {}, tensors);
  const llm::Folder model = llm::open_folder(path);
  BOOST_CHECK(model.config.model.tie_output && !model.parameters->find("output.weight"));
}

namespace {

json config_of(const char* name) { return json::parse(read(kCases / name / "config.json")); }

seppo::HfConfig read_config(const Folder& folder, const std::string& text) {
  folder.write("c.json", text);
  return seppo::read_hf_config(folder.path / "c.json");
}

}  // namespace

BOOST_AUTO_TEST_CASE(keys_that_change_nothing_are_accepted) {
  const Folder folder("llm");
  const json llama = config_of("llama_tied_but_two_heads"), gpt2 = config_of("gpt2_untied");
  const json plain = seppo::to_json_object(read_config(folder, llama.dump()).model);
  const std::pair<const char*, json> harmless[] = {{"rope_scaling", {{"rope_type", "default"}}},
                                                   {"rope_scaling", {{"type", "default"}}},
                                                   {"rope_scaling", nullptr},
                                                   {"rope_scaling", false},
                                                   {"rope_parameters", {{"type", "default"}, {"rope_theta", 10000}}},
                                                   {"hidden_act", "swish"},
                                                   {"eos_token_id", -1},
                                                   {"sliding_window", nullptr},
                                                   {"use_sliding_window", false},
                                                   {"partial_rotary_factor", 1.0},
                                                   {"logits_scaling", 1},
                                                   {"layer_types", {"full_attention", "full_attention"}},
                                                   {"quantization_config", nullptr},
                                                   {"pruned_heads", json::object()},
                                                   {"num_key_value_heads", 2},
                                                   {"transformers.js_config", {{"dtype", "q4"}}},
                                                   {"_attn_implementation_autoset", true},
                                                   {"attention_dropout", 0.1},
                                                   {"pad_token_id", 63}};
  for (const auto& [key, value] : harmless) {
    json config = llama;
    config[key] = value;
    BOOST_TEST_CONTEXT(key << ": " << value) {
      BOOST_CHECK_NO_THROW(BOOST_CHECK(seppo::to_json_object(read_config(folder, config.dump()).model) == plain));
    }
  }
  std::string infinite = gpt2.dump();
  infinite.insert(1, R"("time_step_limit": [0.0, Infinity, -Infinity, NaN], "prefix": "an \"Infinity", )");
  BOOST_CHECK_NO_THROW(read_config(folder, infinite));
}

// What nobody asked for may be a feature that this program lacks.
BOOST_AUTO_TEST_CASE(keys_that_may_change_a_model_are_refused) {
  const Folder folder("llm");
  const std::pair<const char*, json> refused[] = {{"partial_rotary_factor", 0.5},
                                                  {"sliding_window", 8},
                                                  {"quantization_config", {{"bits", 4}}},
                                                  {"attention_multiplier", 0.5},
                                                  {"logits_scaling", 2},
                                                  {"embedding_multiplier", 3},
                                                  {"residual_multiplier", 0.5},
                                                  {"layer_types", {"full_attention", "sliding_attention"}},
                                                  {"qk_norm", true},
                                                  {"auto_map", {{"AutoModel", "modeling.py"}}},
                                                  {"nobody_knows", 1},
                                                  {"rope_scaling", {{"type", "longrope"}, {"factor", 2}}}};
  for (const char* name : {"llama_tied_but_two_heads", "gpt2_untied"})
    for (const auto& [key, value] : refused) {
      json config = config_of(name);
      config[key] = value;
      BOOST_TEST_CONTEXT(name << ", " << key) {
        check_refusal([&] { read_config(folder, config.dump()); }, "c.json: '" + std::string(key) + "'");
      }
    }
  std::string infinite = config_of("llama_tied_but_two_heads").dump();
  infinite.replace(infinite.find("1e-06"), 5, "Infinity");
  check_refusal([&] { read_config(folder, infinite); }, "c.json: 'rms_norm_eps' is no number");
}

// Products of sizes are computed without overflow, and compared with what the files can hold.
BOOST_AUTO_TEST_CASE(absurd_sizes_are_refused) {
  const Folder folder("llm");
  json config = config_of("llama_tied_but_two_heads");
  config.update({{"head_dim", 1 << 30}, {"num_attention_heads", 1 << 30}, {"num_key_value_heads", 1 << 30}});
  check_refusal([&] { read_config(folder, config.dump()); }, "n_heads 1073741824 is not in");
  config = config_of("gpt2_untied");
  config["n_embd"] = 1 << 30;
  check_refusal([&] { read_config(folder, config.dump()); }, "'n_embd' is more than 268435456");
  copy_case(folder, "gpt2_untied");
  config = config_of("gpt2_untied");
  config["vocab_size"] = 1 << 26;
  folder.write("gpt2_untied/config.json", config.dump());
  const Result r = folder.run({"llm", "generate", "--model", "gpt2_untied", "--prompt", "a"});
  BOOST_CHECK_MESSAGE(r.code == 1 && r.err.find("more than the allowed") != r.err.npos, r.err);
  if (!takes_memory_itself()) BOOST_CHECK_LT(r.peak_mb, 200);
}

// Without them, Hugging Face's loaders would assume tokens, and so does this reader.
BOOST_AUTO_TEST_CASE(the_tokens_that_begin_and_end_a_text_are_stated) {
  const Folder folder("llm");
  for (const char* name : {"llama_tied_but_two_heads", "gpt2_untied"}) {
    json config = config_of(name);
    config.erase("bos_token_id");
    config.erase("eos_token_id");
    seppo::HfConfig read = read_config(folder, config.dump());
    const bool is_llama =
        read.architecture == seppo::Architecture::llama;  // the other's, 50256, are beyond the vocabulary
    BOOST_CHECK(read.bos == (is_llama ? std::optional(1) : std::nullopt));
    BOOST_CHECK(read.stops == (is_llama ? std::vector{2} : std::vector<int>()));
    config["bos_token_id"] = config["eos_token_id"] = nullptr;
    read = read_config(folder, config.dump());
    BOOST_CHECK(!read.bos && read.stops.empty());
    const json written = seppo::to_json(read);
    BOOST_CHECK(written.at("bos_token_id").is_null() && written.at("eos_token_id").is_null());
  }
}
