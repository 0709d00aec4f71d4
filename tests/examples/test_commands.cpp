// The programs as a user runs them, from training to answers.
// needs: programs: all
#include "support/matches.h"
#include "support/program.h"
#include "support/stored.h"
#include "support/terminal.h"

#include <seppo/nn/io/safetensors.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace test;

BOOST_AUTO_TEST_CASE(a_bar_and_the_remaining_time_in_80_columns, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder;
  for (const int columns : {80, 120}) {
    const std::string shown = on_terminal(
        folder, columns,
        {"reverse", "train", "--epochs", "1", "--epoch-steps", "300", "--lr", "1e-9", "--out", "m", "--overwrite"});
    const std::size_t at = shown.rfind("\x1b[K\u2501");  // the final state of the bar
    BOOST_REQUIRE_MESSAGE(at != std::string::npos, shown);
    const std::string bar = shown.substr(at, shown.find("\x1b[K", at + 1) - at);
    for (const char* part : {"300/300", "| loss ", "| eta 00:00"})
      BOOST_CHECK_MESSAGE(bar.find(part) != std::string::npos, bar);
    BOOST_CHECK_EQUAL(bar.find("steps/s") != std::string::npos, columns == 120);
    BOOST_CHECK_LT(widest(bar), columns);
  }
}

BOOST_AUTO_TEST_CASE(what_to_do_next) {
  const Folder folder;
  const std::string bin = programs_folder() + "/";
  for (const char* program : {"addsub", "reverse"}) {
    for (const char* command : {"eval", "predict"})
      check_refused(folder, {program, command}, 2, std::string("train one first: ") + bin + program + " train");
    const Result r = folder.run({program, "train", "--max-steps", "1", "--log-format", "none"});
    const std::size_t at = r.out.find("next:   " + bin + program + " predict ");
    BOOST_REQUIRE_MESSAGE(at != std::string::npos, r.out);
    const std::string next = r.out.substr(at + 8, r.out.find('\n', at) - at - 8);
    const std::string line = "cd " + folder.path.string() + " && " + next + " >next.txt";
    BOOST_CHECK_MESSAGE(std::system(line.c_str()) == 0, next);
    BOOST_CHECK(!read(folder.path / "next.txt").empty());
    fs::remove_all(folder.path / "runs");
    fs::remove(folder.path / "next.txt");
  }
}

// A program may have another name where it is installed, and its folders may have blanks in theirs.
BOOST_AUTO_TEST_CASE(commands_are_told_as_they_were_typed) {
  const Folder folder;
  fs::create_directories(folder.path / "my bin");
  fs::create_symlink(programs_folder() + "/reverse", folder.path / "my bin/seppo-reverse");
  const auto shell = [&](const std::string& command) {
    const int status = std::system(("cd " + folder.path.string() + " && " + command + " > out.txt 2>&1").c_str());
    BOOST_CHECK_MESSAGE(status == 0, command << ": " << read(folder.path / "out.txt"));
    return read(folder.path / "out.txt");
  };
  const std::string typed = "'my bin/seppo-reverse'";
  const std::string trained = shell(typed + " train --max-steps 1 --log-format none --out \"it's mine\"");
  const std::size_t at = trained.find("next:   ");
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, trained);
  const std::string next = trained.substr(at + 8, trained.find('\n', at) - at - 8);
  BOOST_CHECK_MESSAGE(next.starts_with(typed + " predict --model 'it'\\''s mine' "), next);
  BOOST_CHECK_NE(shell(next).find("encoder.0.self_attn"), std::string::npos);
  const std::string help = shell(typed + " predict --help");
  BOOST_CHECK_MESSAGE(help.starts_with("usage: seppo-reverse predict [options]") &&
                          help.find("\n  seppo-reverse predict 3141592653589793 ") != std::string::npos,
                      help);
}

// Where the right answer can be computed, a wrong one is not told as a fact.
BOOST_AUTO_TEST_CASE(wrong_answers_are_told) {
  const Folder folder;
  const std::string small = " train --d-model 8 --heads 1 --max-steps 40 --log-format none";
  for (const char* program : {"addsub", "reverse"}) BOOST_REQUIRE_EQUAL(folder.run(words(program + small)).code, 0);
  std::string sums;
  std::vector<int> right;
  for (int a = -49; a < 50; a += 7)
    for (int b = -49; b < 50; b += 9) {
      sums += std::to_string(a) + " + " + std::to_string(b) + "\n";
      right.push_back(a + b);
    }
  std::istringstream answers(folder.run({"addsub", "predict"}, sums).out);
  const std::string form(R"(-?\d+ \+ -?\d+ = (-?\d+)(   wrong: it is (-?\d+))?|BOS .*   wrong: it is (-?\d+))");
  int wrong = 0;
  std::size_t i = 0;
  for (std::string line; std::getline(answers, line); ++i) {
    const Match m = matched(line, form);
    BOOST_REQUIRE_MESSAGE(!m.empty(), line);
    const std::string answer = m[1], truth = m[3].empty() ? m[4] : m[3];
    BOOST_CHECK_MESSAGE((answer == std::to_string(right[i])) == truth.empty(), line);
    if (!truth.empty()) BOOST_CHECK_EQUAL(truth, std::to_string(right[i]));
    wrong += !truth.empty();
  }
  BOOST_CHECK_EQUAL(i, right.size());
  BOOST_CHECK_GT(wrong, 0);
  const std::string digits = "3141592653589793", answer = folder.run({"reverse", "predict", digits}).out;
  const std::string reversed = "3 9 7 9 8 5 3 5 6 2 9 5 1 4 1 3";
  BOOST_CHECK_EQUAL(answer == reversed + "\n", answer.find("wrong") == std::string::npos);
  BOOST_CHECK_MESSAGE(answer.ends_with("   wrong: it is " + reversed + "\n"), answer);
}

BOOST_AUTO_TEST_CASE(peak_memory_is_that_of_the_program_itself) {
  const Folder folder;
  const std::vector<char> memory(std::size_t{1} << 30, 1);  // memory of the parent process
  const Result r = folder.run({"addsub", "train", "--overfit", "--max-steps", "1", "--out", "m", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0 && memory[r.out.size()] == 1, r.err);
  const double mb = last_line(r.out)["peak_rss_mb"].get<double>();
  BOOST_CHECK_MESSAGE(mb > 1 && mb < 500, mb);
}

BOOST_AUTO_TEST_CASE(addsub_from_training_to_answers, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder;
  const Result trained = folder.run({"addsub", "train", "--overfit", "--threads", "2", "--out", "m", "--json"});
  BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const auto summary = last_line(trained.out);
  BOOST_CHECK_EQUAL(summary["val_exact"].get<double>(), 1);
  for (const char* key : {"val_token_accuracy", "seconds", "steps", "peak_rss_mb"})
    BOOST_CHECK_MESSAGE(summary.contains(key) && summary[key].is_number(), key);
  for (const char* file : {"config.json", "model.safetensors", "metrics.jsonl"})
    BOOST_CHECK_MESSAGE(fs::exists(folder.path / "m" / file), file);
  std::ifstream metrics(folder.path / "m" / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) BOOST_CHECK(Json::parse(line).contains("step"));

  const Result evaluated = folder.run({"addsub", "eval", "--model", "m", "--all", "--json"});
  BOOST_REQUIRE_MESSAGE(evaluated.code == 0, evaluated.err);
  for (const char* key : {"val_exact", "val_exact_not_in_train", "val_token_accuracy", "all_exact", "unseen_exact"})
    BOOST_CHECK_MESSAGE(last_line(evaluated.out).contains(key), key);
  BOOST_CHECK_EQUAL(last_line(evaluated.out)["all_examples"].get<int>(), 19602);

  const Result one = folder.run({"addsub", "predict", "--model", "m", "-30", "-", "-34"});
  BOOST_CHECK_MESSAGE(one.code == 0 && one.out.starts_with("-30 - -34 = "), one.out << one.err);
  const Result tokens =
      folder.run({"addsub", "predict", "--model", "m/model.safetensors", "BOS NEGATIVE 30 subtract NEGATIVE 34 EOS"});
  BOOST_CHECK_MESSAGE(tokens.code == 0 && tokens.out.starts_with("BOS "), tokens.out << tokens.err);
  BOOST_CHECK_EQUAL(folder.run({"addsub", "predict", "--model", "m", "-30-", "-34"}).out, one.out);
  const Result two = folder.run({"addsub", "predict", "--model", "m", "-30--34", "1+2"});
  BOOST_CHECK(two.code == 0 && two.out.starts_with(one.out) && two.out.size() > one.out.size());
  const Result many = folder.run({"addsub", "predict", "--model", "m"}, "1 + 2\n\n3 - 4\n");
  BOOST_CHECK_MESSAGE(many.code == 0 && std::count(many.out.begin(), many.out.end(), '\n') == 3, many.out << many.err);
  const Result wrong = folder.run({"addsub", "predict", "--model", "m"}, "1 + 2\nseven\n");
  BOOST_CHECK_MESSAGE(wrong.code == 1 && wrong.err.find("standard input:2") != std::string::npos, wrong.err);
  BOOST_CHECK_EQUAL(folder.run({"addsub", "predict", "--model", "m", "1 + 50"}).code, 1);

  // Damaged checkpoints and other files are refused.
  const std::string whole = read(folder.path / "m" / "model.safetensors");
  std::ofstream(folder.path / "short.safetensors", std::ios::binary) << whole.substr(0, whole.size() - 100);
  std::ofstream(folder.path / "text.safetensors") << "not a checkpoint at all";
  for (const char* file : {"short.safetensors", "text.safetensors"}) {
    const Result r = folder.run({"addsub", "eval", "--model", file});
    BOOST_CHECK_MESSAGE(
        r.code == 1 && r.err.find(file) != std::string::npos && std::count(r.err.begin(), r.err.end(), '\n') == 1,
        r.err);
  }
  // A checkpoint whose config asks for a model far larger than the file is refused before memory is allocated for it.
  Stored content = read_stored(folder.path / "m" / "model.safetensors");
  auto config = nlohmann::json::parse(content.metadata["seppo.config"]);
  config["model"]["d_model"] = 65536;
  config["model"]["d_ff"] = 1 << 20;
  config["model"]["enc_layers"] = 1000;
  content.metadata["seppo.config"] = config.dump();
  write_stored(folder.path / "huge.safetensors", content);
  const Result huge = folder.run({"addsub", "eval", "--model", "huge.safetensors"});
  BOOST_CHECK_MESSAGE(huge.code == 1 && huge.err.find("more than the allowed") != std::string::npos, huge.err);
  // A config that lacks a part is also refused.
  for (const char* key : {"model", "data"}) {
    config = nlohmann::json::parse(read_stored(folder.path / "m" / "model.safetensors").metadata["seppo.config"]);
    config.erase(key);
    content.metadata["seppo.config"] = config.dump();
    write_stored(folder.path / "part.safetensors", content);
    const Result part = folder.run({"addsub", "eval", "--model", "part.safetensors"});
    BOOST_CHECK_MESSAGE(part.code == 1 && part.err.find(key) != std::string::npos, part.code << part.err);
  }
  const Result foreign = folder.run({"reverse", "eval", "--model", "m"});
  BOOST_CHECK_MESSAGE(foreign.code == 1 && foreign.err.find("addsub") != std::string::npos, foreign.err);
}

BOOST_AUTO_TEST_CASE(reverse_from_training_to_attention) {
  const Folder folder;
  const Result trained =
      folder.run({"reverse", "train", "--max-steps", "30", "--out", "m", "--json", "--log-format", "none"});
  BOOST_REQUIRE_MESSAGE(trained.code == 0 && trained.err.empty(), trained.err);
  BOOST_CHECK_EQUAL(last_line(trained.out)["steps"].get<int>(), 30);
  const Result evaluated = folder.run({"reverse", "eval", "--model", "m", "--json"});
  BOOST_CHECK(last_line(evaluated.out).contains("test_exact"));
  const Result shown = folder.run({"reverse", "predict", "--model", "m", "--attention", "3141592653589793"});
  BOOST_CHECK_MESSAGE(shown.code == 0 && shown.out.find("encoder.0.self_attn, head 0") != std::string::npos,
                      shown.out << shown.err);
  BOOST_CHECK_EQUAL(std::count(shown.out.begin(), shown.out.end(), '\n'),
                    1 + 2 + 2 + 16);  // with the places of equal digits
  for (const char* text : {"123", "31415926535897931", "314159265358979x"}) {
    const Result r = folder.run({"reverse", "predict", "--model", "m", text});
    BOOST_CHECK_MESSAGE(r.code == 1 && r.err.find(text) != std::string::npos, r.err);
  }
}

BOOST_AUTO_TEST_CASE(the_same_command_gives_the_same_bytes, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder;
  std::string first;
  for (const char* threads : {"1", "2", "3"}) {
    BOOST_REQUIRE_EQUAL(
        folder.run({"addsub", "train", "--max-steps", "40", "--dropout", "0.1", "--threads", threads, "--out", threads})
            .code,
        0);
    const std::string bytes = read(folder.path / threads / "model.safetensors");
    if (first.empty()) first = bytes;
    BOOST_CHECK_MESSAGE(bytes == first, threads << " threads");
  }
}

// The model of every preset can be rebuilt from its checkpoint.
BOOST_AUTO_TEST_CASE(presets_train_and_answer, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder;
  for (const auto& [program, preset, question] : {std::tuple{"addsub", "course", "12 + 30"},
                                                  {"addsub", "quick", "12 + 30"},
                                                  {"addsub", "large", "12 + 30"},
                                                  {"reverse", "plain", "3141592653589793"}}) {
    const Result trained =
        folder.run({program, "train", "--preset", preset, "--max-steps", "3", "--out", preset, "--json"});
    BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
    const Result evaluated = folder.run({program, "eval", "--model", preset, "--json"});
    BOOST_REQUIRE_MESSAGE(evaluated.code == 0, evaluated.err);
    BOOST_CHECK_EQUAL(last_line(evaluated.out)["val_token_accuracy"].get<double>(),
                      last_line(trained.out)["val_token_accuracy"].get<double>());
    BOOST_CHECK_EQUAL(folder.run({program, "predict", "--model", preset, question}).code, 0);
  }
  const auto config = [&](const std::string& preset) {
    return Json::parse(read(folder.path / preset / "config.json"));
  };
  BOOST_CHECK_EQUAL(config("course")["model"]["positions"], "floor-sinusoid");
  BOOST_CHECK_EQUAL(config("course")["training"]["in_order"], true);
  BOOST_CHECK_EQUAL(config("large")["model"]["d_model"], 256);
  BOOST_CHECK_EQUAL(config("plain")["model"]["plain"], true);
  // Options take precedence over a preset, wherever they appear.
  BOOST_CHECK_EQUAL(folder.run({"addsub", "train", "--d-ff", "32", "--preset=course", "--max-steps", "1"}).code, 0);
  BOOST_CHECK_EQUAL(config("runs/addsub")["model"]["d_ff"], 32);
  BOOST_CHECK_EQUAL(config("runs/addsub")["model"]["positions"], "floor-sinusoid");
  // Flags that a preset sets can be unset.
  BOOST_CHECK_EQUAL(
      folder.run({"addsub", "train", "--no-in-order", "--preset", "course", "--max-steps", "1", "--overwrite"}).code,
      0);
  BOOST_CHECK_EQUAL(config("runs/addsub")["training"]["in_order"], false);
  check_refused(folder, {"addsub", "train", "--no-in-order"}, 2, "--no-in-order");
  check_refused(folder, {"reverse", "train", "--preset", "plain", "--norm", "pre"}, 2, "--norm");
}

BOOST_AUTO_TEST_CASE(an_interrupted_training_is_saved) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Folder folder;
    const pid_t child =
        folder.start({"addsub", "train", "--epochs", "100000", "--out", "m", "--eval-interval", "1000000"});
    for (int i = 0; i < 100 && !fs::exists(folder.path / "m" / "metrics.jsonl"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::kill(child, signal);
    const Result r = folder.finish(child);
    BOOST_CHECK_MESSAGE(r.code == 128 + signal && r.err.find("interrupted") != std::string::npos, r.code << r.err);
    BOOST_CHECK_EQUAL(folder.run({"addsub", "eval", "--model", "m"}).code, 0);
  }
}

BOOST_AUTO_TEST_CASE(progress_is_plain_where_there_is_no_terminal) {
  const Folder folder;
  const Result r = folder.run({"addsub", "train", "--max-steps", "20", "--log-interval", "10", "--out", "m"});
  BOOST_CHECK_MESSAGE(r.err.find("step     10/") != std::string::npos && r.err.find("| loss ") != std::string::npos &&
                          r.err.find("| lr ") != std::string::npos,
                      r.err);
  BOOST_CHECK(r.err.find('\r') == std::string::npos && r.err.find('\x1b') == std::string::npos);
  BOOST_CHECK(r.out.find("step") == std::string::npos || r.out.find("| loss") == std::string::npos);
}

// Both methods agree, and only the fused op's memory grows linearly with the length.
BOOST_AUTO_TEST_CASE(attention_lab_shows_what_it_claims) {
  const Folder folder;
  const Result r =
      folder.run({"attention_lab", "--lengths", "128,256,512", "--repeats", "1", "--plot", "p.svg", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const Json result = last_line(r.out);
  BOOST_CHECK_LT(result["largest_difference"].get<double>(), 1e-6);
  BOOST_CHECK_GT(result["memory_powers"][0].get<double>(), 1.5);
  BOOST_CHECK_LT(result["memory_powers"][1].get<double>(), 1.1);
  BOOST_CHECK(read(folder.path / "p.svg").ends_with("</svg>\n"));
  for (const char* lengths : {"", "x", "64,32", "64,64", "16,64,32", "64,", "0", "1e3", "100000"})
    check_refused(folder, {"attention_lab", "--lengths", lengths}, 2, "--lengths");
  check_refused(folder, {"attention_lab", "--plot", "none/p.svg"}, 2, "--plot: cannot write to 'none/p.svg'");
  check_refused(folder, {"attention_lab", "--plot", "."}, 2, "--plot: '.' is a folder");
}

// The claims of docs/answers.md about the labs.
BOOST_AUTO_TEST_CASE(labs_show_what_is_said_of_them) {
  const Folder folder;
  const Result blocks = folder.run({"blocks_lab"});
  BOOST_REQUIRE_EQUAL(blocks.code, 0);
  for (const char* part : {"one projection for both: 0.00", "layer norm: 0.00    batch norm: 1.",
                           "\n     1.00  0.00  0.00  0.00\n", "\n     0.00  0.00  0.00  0.00\n"})
    BOOST_CHECK_MESSAGE(blocks.out.find(part) != std::string::npos, part);
  const Result positions = folder.run({"positions", "--length", "40", "--width", "16", "--svg", "maps"});
  BOOST_REQUIRE_EQUAL(positions.code, 0);
  BOOST_CHECK(positions.out.find("keeps 40 of 40 positions apart; largest value 39") != std::string::npos);
  BOOST_CHECK(read(folder.path / "maps/sinusoid.svg").ends_with("</svg>\n"));
  BOOST_CHECK_EQUAL(std::distance(fs::directory_iterator(folder.path / "maps"), fs::directory_iterator()), 9);
  check_refused(folder, {"positions", "--length", "0"}, 2, "--length");
  folder.write("file", "");
  check_refused(folder, {"positions", "--svg", "file"}, 2, "--svg: 'file' is not a folder");
  check_refused(folder, {"blocks_lab", "--fast"}, 2, "--fast");
  check_refused(folder, {"addsub", "train", "--positions", "roman"}, 2, "--positions");
}
