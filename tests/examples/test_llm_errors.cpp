// llm: folders, options and files that are refused in one line that names the culprit.
// needs: programs: llm
#include "support/llm_models.h"

#include <seppo/autograd/core/check.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <limits>
#include <utility>

using namespace test;
using nlohmann::json;

BOOST_AUTO_TEST_CASE(configs_are_read_with_hugging_faces_defaults) {
  const Folder folder("llm");
  folder.write("c.json", kLlama.dump());
  const seppo::HfConfig llama = seppo::read_hf_config(folder.path / "c.json");
  BOOST_CHECK(llama.model.layer.eps == 1e-6 && llama.model.rope_theta == 10000 && llama.model.layer.n_kv_heads == 2);
  BOOST_CHECK(llama.model.positions == seppo::Positions::rotary_halves &&
              llama.model.layer.activation == seppo::Activation::swiglu);
  BOOST_CHECK(llama.model.layer.norm_kind == seppo::NormKind::rms && !llama.model.layer.bias && llama.model.tie_output);
  BOOST_CHECK(llama.bos == 256 && llama.stops == (std::vector<int>{256, 3}));
  folder.write("c.json", kGpt2.dump());
  const seppo::HfConfig gpt2 = seppo::read_hf_config(folder.path / "c.json");
  BOOST_CHECK(gpt2.model.layer.eps == 1e-5 && gpt2.model.layer.d_ff == 32 && gpt2.model.tie_output &&
              gpt2.model.layer.bias);
  BOOST_CHECK(gpt2.model.positions == seppo::Positions::learned &&
              gpt2.model.layer.activation == seppo::Activation::gelu_tanh);
  using seppo::Activation;
  for (const auto& [name, kind] : {std::pair{"gelu", Activation::gelu},
                                   {"relu", Activation::relu},
                                   {"gelu_new", Activation::gelu_tanh},
                                   {"gelu_pytorch_tanh", Activation::gelu_tanh}}) {
    json config = kGpt2;
    config["activation_function"] = name;
    folder.write("c.json", config.dump());
    BOOST_CHECK(seppo::read_hf_config(folder.path / "c.json").model.layer.activation == kind);
  }
  for (const int positions : {77, 0}) {  // 0: not given
    json config = kGpt2;
    config["n_positions"] = positions;
    if (positions == 0) config.erase("n_positions");
    folder.write("c.json", config.dump());
    BOOST_CHECK_EQUAL(seppo::read_hf_config(folder.path / "c.json").model.max_length, positions > 0 ? positions : 1024);
  }
  for (const char* other : {"[]", "3", "null"}) {
    folder.write("c.json", other);
    BOOST_CHECK_THROW(seppo::read_hf_config(folder.path / "c.json"), seppo::FormatError);
  }
  for (const json& config : {kLlama, kGpt2}) {
    folder.write("c.json", config.dump());
    const seppo::HfConfig once = seppo::read_hf_config(folder.path / "c.json");
    folder.write("d.json", seppo::to_json(once).dump());
    const seppo::HfConfig twice = seppo::read_hf_config(folder.path / "d.json");
    BOOST_CHECK(seppo::to_json_object(once.model) == seppo::to_json_object(twice.model));
    BOOST_CHECK(once.bos == twice.bos && once.stops == twice.stops && once.architecture == twice.architecture);
  }
}

BOOST_AUTO_TEST_CASE(configs_that_are_not_known_are_refused) {
  const Folder folder("llm");
  const auto refused = [&](json config, const char* key, const json& value, const std::string& part) {
    value.is_null() ? static_cast<void>(config.erase(key)) : static_cast<void>(config[key] = value);
    folder.write("c.json", config.dump());
    BOOST_TEST_CONTEXT(key)
    BOOST_CHECK_EXCEPTION(
        seppo::read_hf_config(folder.path / "c.json"), seppo::FormatError, [&](const seppo::FormatError& e) {
          const std::string what = e.what();
          if (what.find(part) == what.npos) BOOST_TEST_MESSAGE("'" << part << "' is not in: " << what);
          return what.find(part) != what.npos && what.find("c.json: ") != what.npos && what.size() < 300;
        });
  };
  refused(kLlama, "model_type", "bert", "'model_type': \"bert\" is not supported; known are llama, gpt2, ");
  refused(kLlama, "model_type", nullptr, "'model_type'");
  refused(kLlama, "hidden_size", nullptr, "'hidden_size' is missing");
  refused(kLlama, "hidden_size", 8.5, "'hidden_size'");
  refused(kLlama, "hidden_size", 9, "head_dim");
  refused(kLlama, "vocab_size", 0, "vocabulary 0 is not in");
  refused(kLlama, "num_key_value_heads", 3, "n_kv_heads");
  refused(kLlama, "num_attention_heads", 0, "0 heads");
  refused(kLlama, "head_dim", 0, "'head_dim'");
  refused(kLlama, "hidden_act", "relu",
          "'hidden_act': \"relu\" is not supported; known are "
          "[\"silu\",\"swish\",\"gelu\",\"gelu_python\",\"gelu_new\",\"gelu_pytorch_tanh\",\"gelu_fast\"]");
  refused(kLlama, "rope_scaling", {{"type", "linear"}}, "'rope_scaling'");
  refused(kLlama, "attention_bias", 3, "'attention_bias'");
  refused(kLlama, "tie_word_embeddings", 1, "'tie_word_embeddings' is neither true nor false");
  refused(kLlama, "eos_token_id", 257, "'eos_token_id': 257 is no token of 257");
  refused(kLlama, "rms_norm_eps", "x", "'rms_norm_eps' is no number");
  refused(kGpt2, "activation_function", "mish", "'activation_function'");
  refused(kGpt2, "scale_attn_by_inverse_layer_idx", true, "'scale_attn_by_inverse_layer_idx'");
}

BOOST_AUTO_TEST_CASE(folders_that_lack_something_are_refused) {
  const Folder folder("llm");
  folder.write("t.txt", "some text");
  write_model(folder, "m");
  fs::remove(folder.path / "m/tokenizer.json");  // of two formats, the other one
  const Words generate{"llm", "generate", "--model", "m", "--max-tokens", "3"};
  BOOST_REQUIRE_EQUAL(folder.run(generate).code, 0);
  const auto without = [&](const char* file, int code, const std::string& part) {
    fs::rename(folder.path / "m" / file, folder.path / "away");
    check_refused(folder, generate, code, part);
    fs::rename(folder.path / "away", folder.path / "m" / file);
  };
  without("config.json", 2, "--model: there is no 'm/config.json'");
  without("model.safetensors", 2, "--model: there is no 'm/model.safetensors', nor 'm/model.safetensors.index.json'");
  without("merges.txt", 2, "--model: 'm' has no tokenizer");
  folder.write("m/tok512.bin", "x");
  check_refused(folder, generate, 2, "'m' has several tokenizers, vocab.json and tok512.bin");
  fs::remove(folder.path / "m/tok512.bin");
  const std::string vocabulary = read(folder.path / "m/vocab.json"), config = read(folder.path / "m/config.json");
  json large = json::parse(vocabulary);
  large["aa"] = 257;
  folder.write("m/vocab.json", large.dump());
  BOOST_CHECK_EQUAL(folder.run(generate).code, 0);  // no text has this token
  folder.write("m/merges.txt", "a a\n");
  check_refused(folder, generate, 1, "m: the tokenizer has 258 tokens, the model 257");
  folder.write("m/vocab.json", vocabulary);
  folder.write("m/merges.txt", "#version: 0.2\n");
  json wide = json::parse(config);
  wide["hidden_size"] = 16;
  folder.write("m/config.json", wide.dump());
  const Result narrow = folder.run(generate);
  BOOST_CHECK(narrow.code == 1 && narrow.err.find("model.safetensors: does not fit the model") != std::string::npos);
  wide["hidden_size"] = 65536;  // more than the file can hold, so it is refused before any allocation
  folder.write("m/config.json", wide.dump());
  const Result r = folder.run(generate);
  BOOST_CHECK(r.code == 1);
  if (!takes_memory_itself()) BOOST_CHECK_LT(r.peak_mb, 200);
  folder.write("m/config.json", "{");
  check_refused(folder, generate, 1, "config.json:1:2: not valid JSON");
  folder.write("m/config.json", config);

  check_refused(folder, {"llm", "generate", "--model", "none"}, 2, "--model: there is no 'none/config.json'");
  check_refused(folder, {"llm", "generate", "--model", "m", "--temperature", "-1"}, 2, "--temperature");
  check_refused(folder, {"llm", "generate", "--model", "m", "--adapter", "none"}, 2,
                "--adapter: there is no folder 'none'");
  check_refused(folder, {"llm", "generate", "--model", "no.gguf"}, 1, "--model: there is no file 'no.gguf'");
  check_refused(folder, {"llm", "eval", "--model", "m"}, 2, "--data");
  check_refused(folder, {"llm", "eval", "--model", "m", "--data", "t.txt", "--window", "17"}, 2, "--window: 17");
  check_refused(folder, {"llm", "eval", "--model", "m", "--data", "t.txt", "--window", "4", "--stride", "5"}, 2,
                "--stride: 5");
  check_refused(folder, {"llm", "finetune", "--data", "t.txt"}, 2, "--model");
  check_refused(folder, {"llm", "merge", "--model", "m"}, 2, "--out and --adapter");
  check_refused(folder, {"llm", "merge", "--model", "m", "--out", "x"}, 2, "--out and --adapter");
  check_refused(folder, {"llm", "merge", "--model", "m", "--adapter", "x"}, 2, "--out and --adapter");
  check_refused(folder, {"llm", "train", "--data", "t.txt", "--shape", "gpt2", "--kv-heads", "2"}, 2, "--kv-heads");
  check_refused(folder, {"llm", "train", "--data", "t.txt", "--shape", "gpt2", "--head-width", "6"}, 2,
                "--head-width is not of gpt2");
  check_refused(folder, {"llm", "train", "--data", "t.txt", "--d-model", "20", "--heads", "3", "--head-width", "6"}, 2,
                "--d-model 20 is not a multiple of --heads 3");
  check_refused(folder, {"llm", "train", "--data", "t.txt", "--shape", "bloom", "--d-model", "20", "--d-ff", "60"}, 2,
                "--d-ff of bloom is 60, not four times --d-model");
  check_refused(folder, {"llm", "train", "--data", "t.txt", "--tokenizer", "none"}, 2,
                "--tokenizer: 'none' has no tokenizer");
}

// A model may have a larger vocabulary than its tokenizer; the additional tokens are printed as nothing.
BOOST_AUTO_TEST_CASE(a_vocabulary_may_be_padded) {
  const Folder folder("llm");
  json padded = kLlama;
  padded["vocab_size"] = 5000;
  padded["eos_token_id"] = nullptr;
  write_model(folder, "m", padded);
  const Result r = folder.run({"llm", "generate", "--model", "m", "--max-tokens", "100", "--temperature", "1"});
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.size() < 50, r.err);
}

// End-of-text tokens are never printed, neither the first nor any later one.
BOOST_AUTO_TEST_CASE(the_end_of_a_text_is_not_written) {
  const Folder folder("llm");
  write_model(folder, "m");
  const Result r = folder.run({"llm", "generate", "--model", "m", "--max-tokens", "400", "--temperature", "1"});
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.find("<|endoftext|>") == std::string::npos, r.err);
}

// A folder has the old model until it has the new one; what is not of a model stays.
BOOST_AUTO_TEST_CASE(a_folder_is_replaced_whole_or_not_at_all) {
  const Folder folder("llm");
  write_model(folder, "m");
  write_model(folder, "old", kGpt2);
  folder.write("old/notes.txt", "mine");
  fs::create_directory(folder.path / "old/more");
  folder.write("old/more/notes.txt", "mine, too");
  folder.write("old/model-00001-of-00002.safetensors", "a shard of before");
  folder.write("old/chat_template.jinja", "of another tokenizer");
  const Files before = files_of(folder.path / "old");
  llm::Folder model = llm::open_folder(folder.path / "m");
  const float kept = std::exchange(model.parameters->edit()[3], std::numeric_limits<float>::quiet_NaN());
  const auto write = [&] { llm::write_folder(folder.path / "old", model.config, *model.parameters, {}); };
  BOOST_CHECK_THROW(write(), seppo::NumericError);
  BOOST_CHECK(files_of(folder.path / "old") == before && !fs::exists(folder.path / "old.partial"));
  model.parameters->edit()[3] = kept;
  fs::create_directory(folder.path / "old.partial");  // of a process that was killed
  folder.write("old.partial/merges.txt", "cut");
  fs::create_directory_symlink("old", folder.path / "link");
  llm::write_folder(folder.path / "link", model.config, *model.parameters, {});
  Files expected = files_of(folder.path / "m");
  expected.insert({{"notes.txt", "mine"}, {"more/notes.txt", "mine, too"}});
  BOOST_CHECK(files_of(folder.path / "old") == expected);
  BOOST_CHECK(!fs::exists(folder.path / "old.partial") && fs::is_symlink(folder.path / "link"));
}

// The generation speed is reported if more than one token was drawn.
BOOST_AUTO_TEST_CASE(the_pace_is_told) {
  const Folder folder("llm");
  json endless = kLlama;
  endless["eos_token_id"] = nullptr;
  write_model(folder, "m", endless);
  for (const int tokens : {1, 2, 20}) {
    const Result r = folder.run({"llm", "generate", "--model", "m", "--max-tokens", std::to_string(tokens)});
    BOOST_CHECK_MESSAGE(r.code == 0 && r.err.ends_with(" tokens a second\n") == (tokens > 1), r.err);
    BOOST_CHECK_MESSAGE(tokens > 1 ? std::stod(r.err) > 1 : r.err.empty(), r.err);
  }
}

// Transformers 5 writes what concerns rotary positions into an object of its own, which is preferred to the old key.
BOOST_AUTO_TEST_CASE(rotary_positions_may_have_an_object_of_their_own) {
  const Folder folder("llm");
  json config = kLlama;
  config["rope_theta"] = 20000;
  const auto theta = [&](const json& rope) {
    config["rope_parameters"] = rope;
    folder.write("c.json", config.dump());
    return seppo::read_hf_config(folder.path / "c.json").model.rope_theta;
  };
  BOOST_CHECK_EQUAL(theta(nullptr), 20000);
  BOOST_CHECK_EQUAL(theta({{"rope_type", "default"}, {"rope_theta", 500000.0}}), 500000);
  BOOST_CHECK_EQUAL(theta({{"rope_theta", 3}, {"partial_rotary_factor", 1.0}}), 3);
  BOOST_CHECK_EQUAL(theta({{"rope_type", "default"}}), 20000);
  for (const auto& [rope, part] : {std::pair{json{{"rope_type", "llama3"}, {"rope_theta", 3}}, "factor"},
                                   {{{"rope_type", "longrope"}, {"rope_theta", 3}}, "rope_type"},
                                   {{{"rope_type", "llama3"}, {"factor", 8}}, "original_max_position_embeddings"},
                                   {{{"rope_theta", "3"}}, "rope_theta"},
                                   {{{"rope_theta", 3}, {"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
                                   {{{"rope_theta", 3}, {"factor", 8}}, "factor"},
                                   {{{"type", "longrope"}, {"factor", 8}}, "type"},
                                   {3, "rope_parameters"}})
    BOOST_CHECK_EXCEPTION(theta(rope), seppo::FormatError, [part = std::string(part)](const seppo::FormatError& e) {
      const std::string what = e.what();
      return what.find("c.json: ") != what.npos && what.find("'" + part + "'") != what.npos;
    });
}

// The model that a finetuning keeps has its adapters merged; merging them once more would be another model.
BOOST_AUTO_TEST_CASE(adapters_are_not_merged_twice) {
  const Folder folder("llm");
  write_text(folder);
  write_model(folder, "m");
  const Words tune = with({"llm", "finetune", "--model", "m", "--lora", "2", "--out", "runs/llm"}, kBrief);
  BOOST_REQUIRE_EQUAL(folder.run(tune).code, 0);
  const Words adapter{"--adapter", "runs/llm/adapter"};
  for (const Words& merged : {Words{}, {"--model", "runs/llm"}, {"--model", "runs/llm/hf/"}})
    check_refused(folder, with(with({"llm", "generate"}, merged), adapter), 2, "'runs/llm/adapter' is merged already");
  check_refused(folder, with({"llm", "merge", "--out", "x"}, adapter), 2, "is merged already");
  const auto loss = [&](const Words& model) {
    const Result r = folder.run(with({"llm", "eval", "--data", "t.txt", "--json"}, model));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return last_line(r.out)["loss"].get<double>();
  };
  BOOST_CHECK_CLOSE(loss(with({"--model", "m"}, adapter)), loss({"--model", "runs/llm"}), 1e-3);
}

// A model is read with its own tokenizer, whatever an earlier one in the folder had.
BOOST_AUTO_TEST_CASE(a_folder_is_written_with_one_tokenizer) {
  const Folder folder("llm");
  write_text(folder);
  write_model(folder, "m");
  json vocabulary = json::parse(read(folder.path / "m/vocab.json"));
  vocabulary.erase("<|endoftext|>");
  vocabulary["ab"] = 256;
  const json tokenizer{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"a b"}}}},
                       {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                       {"added_tokens", json::array()}};
  fs::create_directory(folder.path / "pairs");
  folder.write("pairs/tokenizer.json", tokenizer.dump());
  const Words train = with({"llm", "train", "--d-model", "8", "--heads", "2", "--layers", "1", "--max-length", "8",
                            "--out", "t", "--overwrite"},
                           kBrief);
  const auto tokens = [&](const Words& more) {
    const Result r = folder.run(with(train, more));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    const Result e = folder.run({"llm", "eval", "--model", "t", "--data", "t.txt", "--json"});
    BOOST_REQUIRE_MESSAGE(e.code == 0, e.err);
    return last_line(e.out)["tokens"].get<int>();
  };
  BOOST_CHECK_EQUAL(tokens({"--tokenizer", "pairs"}), 8 * 50 - 1);
  BOOST_CHECK_EQUAL(tokens({}), 9 * 50 - 1);
  BOOST_CHECK(read(folder.path / "t/hf/tokenizer.json") == read(folder.path / "m/tokenizer.json"));
  BOOST_CHECK(fs::exists(folder.path / "t/hf/vocab.json"));
  BOOST_CHECK_EQUAL(tokens({"--tokenizer", "pairs"}), 8 * 50 - 1);
  BOOST_CHECK(fs::exists(folder.path / "t/hf/tokenizer.json") && !fs::exists(folder.path / "t/hf/vocab.json"));
  // A folder that is written over itself keeps all it has.
  folder.write("m/tokenizer.json", tokenizer.dump());
  const llm::Folder model = llm::open_folder(folder.path / "m");
  llm::write_folder(folder.path / "m", model.config, *model.parameters, folder.path / "m");
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt"})
    BOOST_CHECK_MESSAGE(fs::exists(folder.path / "m" / name), name);
}

BOOST_AUTO_TEST_CASE(an_option_of_adapters_needs_adapters) {
  const Folder folder("llm");
  write_text(folder);
  write_model(folder, "m");
  const Words tune = with({"llm", "finetune", "--model", "m", "--lora-alpha", "4", "--out", "f"}, kBrief);
  check_refused(folder, tune, 2, "--lora-alpha: needs --lora");
  BOOST_CHECK_EQUAL(folder.run(with(tune, {"--lora", "1"})).code, 0);
}
