// llm: how a text begins and ends, where prompts come from, how tokens are drawn, and what a terminal is shown.
// needs: programs: llm
#include "llm/text_output.h"
#include "support/llm_models.h"
#include "support/terminal.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/models/decoding/generate.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <set>
#include <sstream>

using namespace test;
using nlohmann::json;

namespace {

// Trains a small model briefly; runs/llm/hf is its folder.
const Words kTrain{"llm",      "train", "--data",       "t.txt", "--d-model", "16", "--heads",       "2",
                   "--layers", "1",     "--max-length", "16",    "--epochs",  "1",  "--epoch-steps", "40",
                   "--lr",     "0.01",  "--log-format", "none",  "--json"};

std::string fable(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "A fox saw a crow. The crow had a piece of cheese, and sang. ";
  return text;
}

// How many tokens `llm eval` predicts in "abcde": one less than it sees.
int predicted(const Folder& folder, const Words& options) {
  folder.write("five.txt", "abcde");
  const Result r = folder.run(with({"llm", "eval", "--data", "five.txt", "--json"}, options));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  return last_line(r.out)["tokens"].get<int>();
}

void set_keys(const fs::path& file, const json& keys) {
  json content = json::parse(read(file));
  content.update(keys);
  std::ofstream(file) << content.dump();
}

}  // namespace

// Without a stride, windows begin every half a window.
BOOST_AUTO_TEST_CASE(windows_overlap_by_half) {
  const Folder folder("llm");
  folder.write("t.txt", fable(20));
  BOOST_REQUIRE_EQUAL(folder.run(kTrain).code, 0);
  const auto perplexity = [&](const Words& stride) {
    const Result r = folder.run(with({"llm", "eval", "--data", "t.txt", "--window", "8", "--json"}, stride));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return last_line(r.out)["perplexity"].get<double>();
  };
  BOOST_CHECK_EQUAL(perplexity({}), perplexity({"--stride", "4"}));
  BOOST_CHECK_NE(perplexity({}), perplexity({"--stride", "8"}));
}

// The rows are the windows of the training text, one behind the other: what was written, and its tokens.
BOOST_AUTO_TEST_CASE(the_data_is_the_text_in_windows) {
  const Folder folder("llm");
  std::string text;
  for (int i = 0; i < 90; ++i) text += std::to_string(i * i) + " fox\n";
  folder.write("t.txt", text);
  const Words command{"llm", "data", "--data", "t.txt", "--train-share", "0.8", "--window", "7"};
  const Result r = folder.run(with(command, {"--head", "1000"}));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  std::istringstream lines(r.out);
  std::string shown, ids, written;
  int windows = 0;
  for (; std::getline(lines, shown) && std::getline(lines, ids); ++windows) {
    std::string row;
    for (const std::string& id : words(ids)) row += static_cast<char>(std::stoi(id));
    BOOST_CHECK_EQUAL(std::string(seppo::printable(row)), shown);
    written += row;
  }
  BOOST_CHECK_EQUAL(shown, fmt::format("{0} of {0} windows", windows));
  const std::string trained = text.substr(0, text.size() * 8 / 10);
  BOOST_CHECK_MESSAGE(trained.starts_with(written) && written.size() + 1 >= trained.size(), written);

  BOOST_CHECK(folder.run(with(command, {"--head", "2"})).out.ends_with(fmt::format("\n2 of {} windows\n", windows)));
  write_model(folder, "m");
  BOOST_CHECK_EQUAL(folder.run(with(command, {"--head", "1000", "--tokenizer", "m"})).out, r.out);  // of bytes, too
  const Words any{"llm", "data", "--data", "t.txt", "--train-share", "0.8"};
  BOOST_CHECK_EQUAL(folder.run(with(any, {"--window", "512"})).code, 0);  // no model limits it
  check_refused(folder, with(any, {"--checkpoint-activations"}), 2, "--checkpoint-activations: nothing is trained");
  check_refused(folder, {"llm", "data"}, 2, "--data: a text file is needed");
  check_refused(folder, with(command, {"--tokenizer", "none"}), 2, "--tokenizer: 'none' has no tokenizer");
  folder.write("t.txt", "a few");
  check_refused(folder, command, 1, "t.txt: tokens are too few");
}

// As Hugging Face's loaders do it: config.json does not matter, the tokenizer's files do.
BOOST_AUTO_TEST_CASE(a_text_begins_as_the_tokenizer_says) {
  const Folder folder("llm");
  json config = kLlama;
  config["vocab_size"] = 258;
  write_model(folder, "m", config);
  fs::remove(folder.path / "m/tokenizer.json");
  const Words model{"--model", "m"};
  const auto check = [&](int by_default) {
    BOOST_CHECK_EQUAL(predicted(folder, model), by_default);
    BOOST_CHECK_EQUAL(predicted(folder, with(model, {"--bos", "always"})), 5);
    BOOST_CHECK_EQUAL(predicted(folder, with(model, {"--bos", "never"})), 4);
  };
  check(4);  // vocab.json and merges.txt
  set_keys(folder.path / "m/tokenizer_config.json", {{"add_bos_token", true}});
  check(5);
  BOOST_CHECK(llm::open_folder(folder.path / "m").encode("a").front() == 256);
  const json vocabulary = json::parse(read(folder.path / "m/vocab.json"));
  folder.write("m/tokenizer.json", tokenizer_json(vocabulary, false).dump());
  check(4);  // a tokenizer.json says it itself
  folder.write("m/tokenizer.json", tokenizer_json(vocabulary, true).dump());
  check(5);
  const llm::Folder opened = llm::open_folder(folder.path / "m");
  BOOST_TEST(opened.encode("a") == (std::vector<int>{257, 'a'}), boost::test_tools::per_element());
  BOOST_TEST(opened.encode("a", seppo::Bos::never) == std::vector<int>{'a'}, boost::test_tools::per_element());
  BOOST_TEST(opened.encode("") == std::vector<int>{257}, boost::test_tools::per_element());
}

// Text that spells a special token is one where it is asked for.
BOOST_AUTO_TEST_CASE(special_tokens_in_texts_are_an_option) {
  const Folder folder("llm");
  write_model(folder, "m");
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const std::string text = "a<|endoftext|>b";
  BOOST_CHECK_EQUAL(model.encode(text).size(), text.size());
  BOOST_TEST(model.encode(text, seppo::Bos::never, seppo::SpecialText::tokens) == (std::vector<int>{'a', 256, 'b'}),
             boost::test_tools::per_element());

  folder.write("special.txt", text);
  const Words eval{"llm", "eval", "--model", "m", "--data", "special.txt", "--json"};
  const auto scored = [&](const Words& options) { return last_line(folder.run(with(eval, options)).out)["tokens"]; };
  BOOST_CHECK_EQUAL(scored({}).get<std::size_t>(), text.size() - 1);
  BOOST_CHECK_EQUAL(scored({"--special-tokens"}).get<int>(), 2);
  const Words generate{"llm", "generate", "--model", "m", "--prompt", text, "--temperature", "0", "--max-tokens", "9"};
  BOOST_CHECK(folder.run(with(generate, {"--special-tokens"})).out != folder.run(generate).out);
  std::string documents;
  for (int i = 0; i < 20; ++i) documents += text;
  folder.write("t.txt", documents);
  const Words tune{"llm", "finetune", "--model", "m", "--data", "t.txt", "--window", "8", "--epochs", "1"};
  const std::string told = folder.run(with(tune, {"--epoch-steps", "2", "--special-tokens"})).err;
  BOOST_CHECK_MESSAGE(told.find("54 training and 6 validation tokens") != told.npos, told);
}

// Without a prompt, a model begins with its own token for that.
BOOST_AUTO_TEST_CASE(an_empty_prompt_begins_with_the_models_token) {
  const Folder folder("llm");
  write_model(folder, "m");
  const llm::Folder model = llm::open_folder(folder.path / "m");
  BOOST_TEST(model.encode("") == std::vector<int>{256}, boost::test_tools::per_element());
  BOOST_CHECK(model.encode("", seppo::Bos::never).empty());
  json without = kLlama;
  without["bos_token_id"] = nullptr;
  write_model(folder, "w", without);
  const Words generate{"llm", "generate", "--max-tokens", "2"};
  BOOST_CHECK_EQUAL(folder.run(with(generate, {"--model", "m"})).code, 0);
  check_refused(folder, with(generate, {"--model", "m", "--bos", "never"}), 2, "--prompt: is empty");
  check_refused(folder, with(generate, {"--model", "w"}), 2, "--prompt: is empty");
  check_refused(folder, with(generate, {"--model", "w", "--prompt", "a", "--bos", "always"}), 2,
                "--bos: the model has no token");
}

// What would change the tokens and is not supported is refused by name.
BOOST_AUTO_TEST_CASE(a_tokenizer_config_is_heeded_or_refused) {
  const Folder folder("llm");
  write_model(folder, "m");
  fs::remove(folder.path / "m/tokenizer.json");
  const std::string good = read(folder.path / "m/tokenizer_config.json");
  const auto refused = [&](const json& keys, const std::string& part) {
    folder.write("m/tokenizer_config.json", good);
    set_keys(folder.path / "m/tokenizer_config.json", keys);
    check_refused(folder, {"llm", "generate", "--model", "m", "--prompt", "a"}, 1, "m/tokenizer_config.json: " + part);
  };
  const std::vector<int> spaced = llm::open_folder(folder.path / "m").encode(" a");
  set_keys(folder.path / "m/tokenizer_config.json", {{"add_prefix_space", true}, {"add_eos_token", true}});
  std::vector<int> ended = llm::open_folder(folder.path / "m").encode("a");
  BOOST_CHECK_EQUAL(ended.back(), 256);
  ended.pop_back();
  BOOST_TEST(ended == spaced, boost::test_tools::per_element());
  refused({{"add_eos_token", true}, {"eos_token", "<none>"}}, "'add_eos_token': 'eos_token' is no token");
  refused({{"add_bos_token", true}, {"bos_token", "<none>"}}, "'add_bos_token': 'bos_token' is no token");
  folder.write("m/tokenizer_config.json", "[]");
  check_refused(folder, {"llm", "generate", "--model", "m", "--prompt", "a"}, 1, "tokenizer_config.json: is no object");
}

// A prompt may be longer than an argument of a command may be, and is taken as it is.
BOOST_AUTO_TEST_CASE(a_prompt_may_be_a_file) {
  const Folder folder("llm");
  write_model(folder, "m");
  const Words generate{"llm", "generate", "--model", "m", "--max-tokens", "0"};
  std::string prompt = "  \n";
  while (prompt.size() < 200'000) prompt += "once upon a time, ";
  prompt += "\n\n";
  folder.write("p.txt", prompt);
  BOOST_CHECK(folder.run(with(generate, {"--prompt-file", "p.txt"})).out == prompt);
  BOOST_CHECK(folder.run(with(generate, {"--prompt-file", "-"}), prompt).out == prompt);
  const Words some{"llm", "generate", "--model", "m", "--max-tokens", "5", "--temperature", "0"};
  BOOST_CHECK_EQUAL(folder.run(with(some, {"--prompt-file", "-"}), "a fox").out,
                    folder.run(with(some, {"--prompt", "a fox"})).out);
  check_refused(folder, with(generate, {"--prompt-file", "p.txt", "--prompt", "a"}), 2,
                "--prompt-file: cannot be given together with --prompt");
  check_refused(folder, with(generate, {"--prompt-file", "none.txt"}), 74, "none.txt");
  folder.write("p.txt", "a\xff");
  check_refused(folder, with(generate, {"--prompt-file", "p.txt"}), 1, "p.txt:1:2: byte 0xff is not UTF-8");
}

// Each restriction at its strictest leaves only the best token; a repetition penalty makes the text more varied.
BOOST_AUTO_TEST_CASE(sampling_options_reach_the_sampler) {
  const Folder folder("llm");
  folder.write("t.txt", fable(30));
  BOOST_REQUIRE_EQUAL(folder.run(kTrain).code, 0);
  const auto text = [&](const Words& options) {
    const Result r = folder.run(with({"llm", "generate", "--prompt", "A"}, options));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return r.out;
  };
  const std::string best = text({"--temperature", "0", "--max-tokens", "30"});
  const Words hot{"--temperature", "3", "--max-tokens", "30"};
  BOOST_CHECK(text(hot) != best);
  for (const Words& strict : {Words{"--top-k", "1"}, {"--top-p", "0.000001"}, {"--min-p", "1"}})
    BOOST_CHECK_EQUAL(text(with(hot, strict)), best);
  const std::string varied = text({"--temperature", "0", "--repetition-penalty", "1000", "--max-tokens", "30"});
  BOOST_CHECK_GT(std::set<char>(varied.begin(), varied.end()).size(), std::set<char>(best.begin(), best.end()).size());
  BOOST_CHECK_EQUAL(text({"--max-tokens", "0"}), "A");
  // Past its window of 16, the model starts over from the second half of what it sees.
  const llm::Folder model = llm::open_folder(folder.path / "runs/llm");
  std::vector<int> tokens = model.encode("A");
  seppo::Ragged window;
  window.add(tokens);
  for (int i = 0; i < 30; ++i) {
    const int next = generate(model.model, window, {.max_tokens = 1, .sampling = {.temperature = 0}})[0].at(0);
    tokens.push_back(next);
    std::vector<int> seen(window.tokens);
    if (seen.size() == 16) seen.erase(seen.begin(), seen.begin() + 8);
    seen.push_back(next);
    window = {};
    window.add(seen);
  }
  BOOST_CHECK_EQUAL(best, model.tokenizer.decode(tokens));
  // A text ends at any of several end-of-text tokens.
  const auto stops = [&](const char* file, const nlohmann::json& tokens_that_end) {
    nlohmann::json config = nlohmann::json::parse(read(folder.path / "runs/llm/hf" / file));
    config["eos_token_id"] = tokens_that_end;
    folder.write(std::string("runs/llm/hf/") + file, config.dump());
  };
  stops("generation_config.json", {256, static_cast<int>(best[5])});
  BOOST_CHECK_EQUAL(text({"--temperature", "0", "--max-tokens", "30"}), best.substr(0, best.find(best[5], 1)));
  stops("generation_config.json", 256);  // believed more than config.json
  stops("config.json", static_cast<int>(best[5]));
  BOOST_CHECK_EQUAL(text({"--temperature", "0", "--max-tokens", "30"}), best);
  stops("generation_config.json", nullptr);
  BOOST_CHECK_EQUAL(text({"--temperature", "0", "--max-tokens", "30"}), best.substr(0, best.find(best[5], 1)));
}

// A model may write any bytes; a terminal would obey some of them.
BOOST_AUTO_TEST_CASE(a_terminal_is_shown_control_characters) {
  const Folder folder("llm");
  write_model(folder, "m");
  const std::string prompt =
      "a\tb\n\x1b]0;title\x07\xc2\x9b"
      "0m\r\xc3\xa9";
  const Words generate{"llm", "generate", "--model", "m", "--max-tokens", "0", "--prompt", prompt};
  BOOST_CHECK_EQUAL(folder.run(generate).out, prompt);
  const std::string shown = on_terminal(folder, 200, generate);
  BOOST_CHECK_MESSAGE(shown.find("b\n\\x1b]0;title\\x07\\xc2\\x9b0m\\x0d\xc3\xa9\n") != shown.npos, shown);
  BOOST_CHECK(shown.find('\x1b') == shown.npos && shown.find('\x07') == shown.npos);
}

// Tokens may end within a character.
BOOST_AUTO_TEST_CASE(characters_are_written_whole) {
  const std::string text = "\xc3\xa9 \xe6\x97\xa5\xf0\x9f\x98\x80.";
  for (const std::string& bytes : {text, text + "\xff", text + "\xe6\x97", "\x80" + text, "\xe6" + text}) {
    std::ostringstream terminal, file, expected;
    llm::TextOutput shown(terminal, true), plain(file, false);
    for (const char c : bytes) {
      shown.write({&c, 1});
      plain.write({&c, 1});
    }
    shown.finish();
    plain.finish();
    BOOST_CHECK_EQUAL(file.str(), bytes);
    BOOST_CHECK_EQUAL(terminal.str(), std::string(seppo::printable(bytes, 1000)));
  }
}
