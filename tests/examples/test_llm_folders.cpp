// llm: the folders that training, finetuning and merging write, and which model is read when several could be.
// needs: programs: llm
#include <seppo/models/lora.h>
#include <seppo/nn/text/alphabet.h>
#include <seppo/nn/text/byte_level_bpe.h>

#include "support/llm_models.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

using namespace test;
using nlohmann::json;

namespace {

const Words kTrain = with(with({"llm", "train"}, kTiny), kBrief);

double loss_of(const Folder& folder, const std::string& model) {
  const Result r = folder.run({"llm", "eval", "--model", model, "--data", "t.txt", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  return last_line(r.out)["loss"].get<double>();
}

json object_of(const fs::path& file) { return json::parse(read(file)); }

// Starts a training that would take long, waits until it has a model, and stops it.
void train_and_stop(const Folder& folder, const Words& more, const fs::path& awaited, int signal) {
  const Words endless{"llm",           "train", "--data",       "t.txt", "--epochs", "1000000",
                      "--epoch-steps", "2",     "--log-format", "none",  "--window", "8"};
  const pid_t child = folder.start(with(with(endless, kTiny), more));
  for (int i = 0; i < 3000 && !fs::exists(folder.path / awaited); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  BOOST_CHECK(fs::exists(folder.path / awaited));
  ::kill(child, signal);
  BOOST_CHECK_EQUAL(folder.finish(child).code, 128 + signal);
}

}  // namespace

// The best model so far is there from the first evaluation on, also if the training is interrupted or killed.
BOOST_AUTO_TEST_CASE(a_training_that_is_stopped_leaves_a_model) {
  for (const int signal : {SIGINT, SIGKILL}) {
    const Folder folder("llm");
    write_text(folder);
    train_and_stop(folder, {"--out", "t"}, "t/model.safetensors", signal);
    const llm::Folder kept = llm::open_folder(folder.path / "t");
    BOOST_CHECK(kept.path == folder.path / "t/hf");
    if (signal == SIGKILL) continue;  // hf/ may be newer than model.safetensors
    seppo::Parameters parameters(1);
    const seppo::LanguageModel model(parameters.root(), kept.config.model);
    seppo::load_weights(folder.path / "t/model.safetensors", parameters);
    BOOST_CHECK(std::ranges::equal(parameters.values(), kept.parameters->values()));
  }
}

// A run that replaces another one never leaves the earlier one's model to be read, once it has saved its own.
BOOST_AUTO_TEST_CASE(the_model_of_a_run_that_was_overwritten_is_gone) {
  const Folder folder("llm");
  write_text(folder);
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--out", "t", "--seed", "1"})).code, 0);
  const std::string earlier = read(folder.path / "t/hf/model.safetensors");
  fs::remove(folder.path / "t/config.json");  // written with the first model
  train_and_stop(folder, {"--out", "t", "--seed", "9", "--overwrite"}, "t/config.json", SIGKILL);
  BOOST_CHECK(read(folder.path / "t/hf/model.safetensors") != earlier);
}

// A resumed copy of a run has the files of that run alone.
BOOST_AUTO_TEST_CASE(a_copy_of_a_run_is_no_mixture) {
  const Folder folder("llm");
  write_text(folder);
  write_model(folder, "m");
  folder.write("m/tokenizer.json", tokenizer_json(object_of(folder.path / "m/vocab.json"), false).dump());
  folder.write("m/chat_template.jinja", "{{ messages }}");
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--out", "other", "--tokenizer", "m"})).code, 0);
  BOOST_REQUIRE(fs::exists(folder.path / "other/hf/chat_template.jinja"));
  folder.write("other/hf/of_before.txt", "x");
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--out", "t", "--max-steps", "1"})).code, 0);
  const Result r = folder.run({"llm", "train", "--resume", "t", "--out", "other", "--overwrite", "--max-steps", "2"});
  BOOST_CHECK_MESSAGE(r.code == 0, r.err);
  for (const char* file : {"chat_template.jinja", "of_before.txt"})
    BOOST_CHECK(!fs::exists(folder.path / "other/hf" / file));
  BOOST_CHECK(read(folder.path / "other/hf/tokenizer.json") == read(folder.path / "t/hf/tokenizer.json"));
  llm::open_folder(folder.path / "other");
}

// What Hugging Face's loaders read beside the model: the same texts are split alike there.
BOOST_AUTO_TEST_CASE(a_finetuned_model_keeps_the_files_beside_it) {
  const Folder folder("llm");
  write_text(folder);
  json config = kGpt2;
  config["eos_token_id"] = 256;
  write_model(folder, "m", config);
  const json settings{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"chat_template", "{{ messages }}"}};
  folder.write("m/tokenizer_config.json", settings.dump());
  folder.write("m/special_tokens_map.json", R"({"eos_token": "<|endoftext|>"})");
  folder.write("m/generation_config.json", R"({"eos_token_id": [256, 10], "temperature": 0.7})");
  folder.write("m/added_tokens.json", "{}");
  folder.write("m/chat_template.jinja", "{{ messages }}");
  const Words tune = with({"llm", "finetune", "--model", "m", "--lora", "1", "--out", "f"}, kBrief);
  BOOST_REQUIRE_EQUAL(folder.run(tune).code, 0);
  const Result r = folder.run({"llm", "merge", "--model", "m", "--adapter", "f/adapter", "--out", "made"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const Files before = files_of(folder.path / "m");
  for (const char* written : {"f/hf", "made"}) {
    Files after = files_of(folder.path / written);
    BOOST_CHECK_EQUAL(after.size(), before.size());
    for (const auto& [name, content] : before)
      if (name != "model.safetensors" && name != "config.json")
        BOOST_CHECK_MESSAGE(after[name] == content, written << "/" << name);
    BOOST_CHECK((llm::open_folder(folder.path / written).config.stops == std::vector<int>{256, 10}));
  }
  BOOST_CHECK(read(folder.path / "made/model.safetensors") == read(folder.path / "f/hf/model.safetensors"));
}

// A tokenizer's own token for the end is the model's, and the files say so.
BOOST_AUTO_TEST_CASE(a_trained_model_knows_its_end_token) {
  const Folder folder("llm");
  write_text(folder);
  json vocabulary;
  for (const std::string& character : seppo::gpt2_alphabet()) vocabulary[character] = vocabulary.size();
  const auto train = [&](const char* name, const Words& more) {
    const Result r = folder.run(with(with(kTrain, {"--out", name}), more));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    const fs::path hf = folder.path / name / "hf";
    for (const char* file : {"config.json", "generation_config.json"}) {
      const json config = object_of(hf / file);
      BOOST_CHECK(config.contains("bos_token_id") && config.contains("eos_token_id"));
    }
    return object_of(hf / "config.json");
  };
  json config = train("bytes", {});
  BOOST_CHECK(config["bos_token_id"] == 256 && config["eos_token_id"] == 256);
  const json named = object_of(folder.path / "bytes/hf/tokenizer_config.json");
  BOOST_CHECK(named["tokenizer_class"] == "PreTrainedTokenizerFast" && named["eos_token"] == "<|endoftext|>");
  BOOST_CHECK_EQUAL(folder.run({"llm", "generate", "--model", "bytes", "--max-tokens", "2"}).code, 0);

  fs::create_directory(folder.path / "own");
  json own = tokenizer_json(vocabulary, true);
  own["added_tokens"].push_back({{"id", 257}, {"content", "</s>"}, {"special", true}});
  folder.write("own/tokenizer.json", own.dump());
  config = train("own-model", {"--tokenizer", "own"});
  BOOST_CHECK(config["bos_token_id"] == 256 && config["eos_token_id"] == 257);
  BOOST_CHECK(object_of(folder.path / "own-model/hf/tokenizer_config.json")["eos_token"] == "</s>");

  own = tokenizer_json(vocabulary, false);
  own["added_tokens"][0]["content"] = "<stop>";
  folder.write("own/tokenizer.json", own.dump());
  folder.write("own/tokenizer_config.json", R"({"eos_token": {"content": "<stop>"}, "bos_token": null})");
  config = train("named", {"--tokenizer", "own"});
  BOOST_CHECK(config["bos_token_id"] == 256 && config["eos_token_id"] == 256);
  fs::remove(folder.path / "own/tokenizer_config.json");
  config = train("none", {"--tokenizer", "own"});
  BOOST_CHECK(config["bos_token_id"].is_null() && config["eos_token_id"].is_null());
}

// A model is only replaced if that is asked for, and never the one that is read.
BOOST_AUTO_TEST_CASE(a_merge_does_not_replace_a_model_unasked) {
  const Folder folder("llm");
  write_text(folder);
  write_model(folder, "m");
  BOOST_REQUIRE_EQUAL(folder.run(with({"llm", "finetune", "--model", "m", "--lora", "2", "--out", "f"}, kBrief)).code,
                      0);
  write_model(folder, "other", kGpt2);
  const Files before = files_of(folder.path);
  const auto merge = [&](const Words& more) {
    return with({"llm", "merge", "--model", "m", "--adapter", "f/adapter", "--out"}, more);
  };
  check_refused(folder, merge({"other"}), 2, "--out: 'other' has a model; --overwrite replaces it");
  for (const char* same : {"m", "./m/", "m/../m"})
    check_refused(folder, merge({same, "--overwrite"}), 2, "' has the model that is read");
  check_refused(folder, with({"llm", "finetune", "--model", "m", "--out", "m", "--overwrite"}, kBrief), 2,
                "--out: 'm' has the model that is read");
  check_refused(folder, {"llm", "finetune", "--resume", "f", "--out", "m", "--overwrite", "--max-steps", "2"}, 2,
                "--out: 'm' has the model that is read");
  check_refused(folder, {"llm", "train", "--data", "t.txt", "--tokenizer", "m", "--out", "m", "--overwrite"}, 2,
                "--out: 'm' has the model that is read");
  BOOST_CHECK_EQUAL(folder.run({"llm", "data", "--data", "t.txt", "--tokenizer", "m"}).code, 0);
  BOOST_CHECK(files_of(folder.path) == before);
  BOOST_CHECK_EQUAL(folder.run(merge({"other", "--overwrite"})).code, 0);
  BOOST_CHECK_EQUAL(folder.run(merge({"new"})).code, 0);
  BOOST_CHECK(files_of(folder.path / "other") == files_of(folder.path / "new"));
  BOOST_CHECK_CLOSE(loss_of(folder, "new"), loss_of(folder, "f"), 1e-3);
}

// Adapters are merged weight by weight as these are written, and the model that is trained stays as it is.
BOOST_AUTO_TEST_CASE(merged_weights_are_written_and_nothing_changes) {
  const Folder folder("llm");
  write_model(folder, "m");
  llm::Folder opened = llm::open_folder(folder.path / "m");
  const seppo::Adapters adapters(*opened.parameters, opened.model, {.lora = 2});
  seppo::RandomStream random(1, seppo::Purpose::test);
  for (const auto& entry : opened.parameters->entries())
    if (entry.name.ends_with(".b"))
      for (float& x : opened.parameters->edit().subspan(entry.offset, entry.size()))
        x = static_cast<float>(random.uniform());
  const auto values = [&] {
    const auto all = opened.parameters->values();
    return std::vector<float>(all.begin(), all.end());
  };
  const std::vector<float> before = values();
  fs::create_directory(folder.path / "during");
  fs::create_directory(folder.path / "after");
  seppo::save_pretrained(folder.path / "during", opened.config, *opened.parameters, adapters.merged());
  BOOST_CHECK(values() == before);
  seppo::save_pretrained(folder.path / "after", opened.config, *opened.parameters);
  BOOST_CHECK(files_of(folder.path / "during") != files_of(folder.path / "after"));
  adapters.merge();
  BOOST_CHECK(values() != before);
  seppo::save_pretrained(folder.path / "after", opened.config, *opened.parameters);
  BOOST_CHECK(files_of(folder.path / "during") == files_of(folder.path / "after"));
}

// Every message about an adapter names the file.
BOOST_AUTO_TEST_CASE(adapters_that_are_wrong_are_named) {
  const Folder folder("llm");
  write_model(folder, "m");
  fs::create_directory(folder.path / "own");
  llm::Folder opened = llm::open_folder(folder.path / "m");
  seppo::Adapters(*opened.parameters, opened.model, {.lora = 2}).save(folder.path / "own");
  const Words generate{"llm", "generate", "--model", "m", "--adapter", "own", "--prompt", "a"};
  const auto refused = [&](const char* file, const std::string& content, const std::string& part) {
    const std::string good = read(folder.path / "own" / file);
    folder.write(std::string("own/") + file, content);
    check_refused(folder, generate, 1, part);
    folder.write(std::string("own/") + file, good);
  };
  BOOST_CHECK_EQUAL(folder.run(generate).code, 0);
  for (const char* content :
       {R"({"lora": 4097, "lora_alpha": 16})", R"({"lora": 0, "lora_alpha": 16})", R"({"lora": "2", "lora_alpha": 16})",
        R"({"lora": 2})", R"({"lora": 2, "lora_alpha": 0})", R"({"lora": 2, "lora_alpha": 16, "x": 1})", "[]", "1",
        "null", "{}", "{", "", R"({"lora": 2, "lora_alpha": null})", R"({"lora": 4096, "lora_alpha": 16})"})
    refused("adapter.json", content, "own/adapter.json");
  refused("adapter.safetensors", "cut", "own/adapter.safetensors");
}

// Adapters of an earlier format do not stay beside those that replace them.
BOOST_AUTO_TEST_CASE(adapters_replace_those_of_another_format) {
  const Folder folder("llm");
  write_text(folder);
  write_model(folder, "m");
  fs::create_directories(folder.path / "f/adapter");
  folder.write("f/adapter/adapter.json", "{}");
  folder.write("f/adapter/adapter.safetensors", "old");
  folder.write("f/adapter/notes.txt", "mine");
  const Result r = folder.run(with({"llm", "finetune", "--model", "m", "--lora", "2", "--out", "f"}, kBrief));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  std::vector<std::string> names;
  for (const auto& [name, content] : files_of(folder.path / "f/adapter")) names.push_back(name);
  BOOST_CHECK((names == std::vector<std::string>{"adapter_config.json", "adapter_model.safetensors", "notes.txt"}));
}

// Nor do those of a run stay beside the model of another that replaces it.
BOOST_AUTO_TEST_CASE(adapters_of_a_run_that_was_overwritten_are_gone) {
  const Folder folder("llm");
  write_text(folder);
  write_model(folder, "m");
  const auto run = [&](const Words& more) {
    const Result r = folder.run(with({"llm", "finetune"}, more));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  };
  const Words tune = with({"--model", "m", "--overwrite"}, kBrief);
  run(with(tune, {"--out", "other", "--max-steps", "1"}));
  const Words anew = with(tune, {"--out", "f"});
  for (const Words& next : {anew, {"--resume", "other", "--out", "f", "--overwrite", "--max-steps", "2"}}) {
    run(with(anew, {"--lora", "2"}));
    folder.write("f/adapter/notes.txt", "mine");
    run(next);
    BOOST_CHECK((files_of(folder.path / "f/adapter") == Files{{"notes.txt", "mine"}}));
  }
}

// What the system says is told with the name of the file.
BOOST_AUTO_TEST_CASE(errors_of_files_name_the_file) {
  const Folder folder("llm");
  write_model(folder, "m");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json"}) {
    std::error_code error;
    fs::rename(folder.path / "m" / file, folder.path / "away", error);
    fs::create_symlink(file, folder.path / "m" / file);
    const Result r = folder.run({"llm", "generate", "--model", "m", "--prompt", "a"});
    BOOST_CHECK_MESSAGE(
        r.code == 74 && r.err == "llm: m/" + std::string(file) + ": Too many levels of symbolic links\n", r.err);
    fs::remove(folder.path / "m" / file);
    fs::rename(folder.path / "away", folder.path / "m" / file, error);
  }
}

// Hugging Face's own loader opens what was written, and gives the same tokens.
BOOST_AUTO_TEST_CASE(transformers_read_the_tokenizer) {
  const char* const named = std::getenv("SEPPO_TRANSFORMERS");
  const std::string python = named ? named : "python3";
  if (std::system((python + " -c 'import transformers' > /dev/null 2>&1").c_str()) != 0) {
    std::cout << "skipped: transformers; set SEPPO_TRANSFORMERS to a Python that has them\n";
    return;
  }
  const Folder folder("llm");
  write_text(folder);
  const json vocabulary = [] {
    json all;
    for (const std::string& character : seppo::gpt2_alphabet()) all[character] = all.size();
    return all;
  }();
  fs::create_directory(folder.path / "own");
  folder.write("own/tokenizer.json", tokenizer_json(vocabulary, true).dump());
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--out", "bytes"})).code, 0);
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--out", "gpt2", "--shape", "gpt2"})).code, 0);
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--out", "json", "--tokenizer", "own"})).code, 0);
  const std::string text = "A caf\xc3\xa9, isn't it?\n  12";
  folder.write("x.txt", text);
  folder.write("read.py",
               "import json, sys\n"
               "from transformers import AutoConfig, AutoTokenizer\n"
               "t = AutoTokenizer.from_pretrained(sys.argv[1])\n"
               "c = AutoConfig.from_pretrained(sys.argv[1])\n"
               "print(json.dumps([t(open('x.txt', newline='').read()).input_ids, t.eos_token_id, c.eos_token_id,\n"
               "                  c.bos_token_id]))\n");
  for (const char* run : {"bytes", "gpt2", "json"}) {
    const std::string command = "set -e; cd '" + folder.path.string() + "' && HF_HUB_OFFLINE=1 " + python +
                                " read.py " + run + "/hf > out.json 2> err.txt";
    BOOST_REQUIRE_MESSAGE(std::system(command.c_str()) == 0, read(folder.path / "err.txt"));
    BOOST_TEST_MESSAGE(command << " -> " << read(folder.path / "out.json"));
    const json found = json::parse(read(folder.path / "out.json"));
    const llm::Folder ours = llm::open_folder(folder.path / run);
    BOOST_TEST_CONTEXT(run << ": " << found) {
      BOOST_CHECK(found[0].get<std::vector<int>>() == ours.encode(text));
      const json eos = ours.config.stops.empty() ? json() : json(ours.config.stops[0]);
      BOOST_CHECK(found[1] == eos && found[2] == eos);
      BOOST_CHECK(found[3] == (ours.config.bos ? json(*ours.config.bos) : json()));
    }
  }
}
