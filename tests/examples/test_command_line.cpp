// The programs' command lines: one clear line for each mistake, help that fits, and no output lost silently.
// needs: programs: all
#include "app/help_text.h"
#include "support/program.h"
#include "support/terminal.h"

#include <seppo/nn/train/interrupts.h>

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <thread>

using namespace test;

BOOST_AUTO_TEST_CASE(bad_command_lines) {
  const Folder folder;
  const auto train = [&](std::vector<std::string> options, const std::string& part) {
    for (const char* program : {"addsub", "reverse"}) {
      std::vector<std::string> command{program, "train"};
      command.insert(command.end(), options.begin(), options.end());
      check_refused(folder, command, 2, part);
    }
  };
  train({"--schedule", "steps"}, "--schedule");
  train({"--schedule", "noam", "--warmup-steps", "0"}, "--schedule");
  train({"--min-lr", "1", "--lr", "0.1"}, "--min-lr");
  train({"--norm", "none"}, "--norm");
  train({"--log-format", "xml"}, "--log-format");
  train({"--out", "/dev/null"}, "--out");
  train({"--lr", std::string(100'000, '1')}, "--lr");
  check_refused(folder, {"addsub", "train", "--data", "missing.json"}, 2, "missing.json");
  check_refused(folder, {"addsub", "train", "--split", "half"}, 2, "--split");
  check_refused(folder, {"addsub", "train", "--preset", "huge"}, 2, "--preset");
  check_refused(folder, {"addsub", "train", "--label-smoothing", "1"}, 2, "--label-smoothing");
  check_refused(folder, {"addsub", "train", "--data", "/proc/self"}, 2, "'/proc/self' is a folder, not a file");
}

BOOST_AUTO_TEST_CASE(help_and_version) {
  const Folder folder;
  for (const char* program : {"addsub", "reverse"})
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"--help"}, {"--version"}, {"train", "--help"}, {"eval", "--help"}, {"predict", "--help"}}) {
      std::vector<std::string> command{program};
      command.insert(command.end(), words.begin(), words.end());
      const Result r = folder.run(command);
      BOOST_CHECK_MESSAGE(r.code == 0 && !r.out.empty() && r.err.empty(),
                          program << " " << words.back() << ": " << r.code << r.err);
      BOOST_CHECK(folder.empty());
    }
  for (const char* program : {"addsub", "reverse"}) {
    BOOST_CHECK_NE(folder.run({program, "train", "--help-all"}).out.find("--weight-decay"), std::string::npos);
    for (const char* command : {"train", "eval", "predict"})
      BOOST_CHECK_EQUAL(folder.run({program, command, "-h"}).out, folder.run({program, command, "--help"}).out);
    BOOST_CHECK_EQUAL(folder.run({program, "-h"}).out, folder.run({program, "--help"}).out);
    BOOST_CHECK_EQUAL(folder.run({program, "predict", "--version"}).out, folder.run({program, "--version"}).out);
  }
}

// --help shows the options that matter most, --help-all every one.
BOOST_AUTO_TEST_CASE(help_is_short) {
  const Folder folder;
  const auto entries = [&](const std::vector<std::string>& command) {
    std::vector<std::string> found;
    std::istringstream lines(folder.run(command).out);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("  --") && !line.starts_with("  --no-")) found.push_back(words(line)[0]);
    return found;
  };
  for (const char* program : {"addsub", "reverse", "count", "odd_one", "charlm", "translate", "llm"}) {
    const std::vector<std::string> some = entries({program, "train", "--help"}),
                                   all = entries({program, "train", "--help-all"});
    BOOST_CHECK_MESSAGE(some.size() >= 14 && some.size() <= 22 && all.size() > 2 * some.size(),
                        program << ": " << some.size() << " of " << all.size());
    for (const std::string& name : some)
      BOOST_CHECK_MESSAGE(std::ranges::count(all, name) == 1, program << " " << name);
    for (const char* name : {"--config", "--lr", "--epochs", "--out", "--resume", "--seed", "--d-model", "--help-all"})
      BOOST_CHECK_MESSAGE(std::ranges::count(some, name) == 1, program << " " << name);
    BOOST_CHECK(entries({program, "eval", "--help"}) == entries({program, "eval", "--help-all"}));
  }
}

// No line is wider than the terminal or 80 columns, and no word is broken.
BOOST_AUTO_TEST_CASE(help_fits_the_terminal) {
  const Folder folder;
  const auto words = [](const std::string& text) {
    std::istringstream stream(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(stream), {});
  };
  for (const char* program : {"addsub", "reverse"}) {
    const std::string elsewhere = folder.run({program, "train", "--help"}).out;
    for (const int columns : {40, 59, 80, 200}) {
      const std::string help = on_terminal(folder, columns, {program, "train", "--help"});
      BOOST_CHECK_MESSAGE(widest(help) <= std::min(columns, 80), program << " at " << columns << ":\n" << help);
      BOOST_TEST(words(help) == words(elsewhere), boost::test_tools::per_element());
      BOOST_CHECK_EQUAL(help == elsewhere, columns >= 80);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_hint_for_a_misspelt_option) {
  const Folder folder;
  for (const auto& [given, meant] :
       {std::pair{"--batch_size", "--batch-size?"}, {"--treads", "--threads?"}, {"--epoch", "--epochs?"}})
    for (const char* program : {"addsub", "reverse"})
      check_refused(folder, {program, "train", given, "1"}, 2, std::string("did you mean ") + meant);
  const Result far = folder.run({"reverse", "train", "--xylophone", "1"});
  BOOST_CHECK_MESSAGE(far.code == 2 && far.err.find("did you mean") == std::string::npos, far.err);
}

BOOST_AUTO_TEST_CASE(lost_output_is_an_error) {
  const Folder folder;
  for (const char* command :
       {"reverse --help", "addsub --version", "addsub train --dump-config", "reverse train --max-steps 1 --out m"}) {
    const std::string line =
        "cd " + folder.path.string() + " && " + programs_folder() + "/" + command + " >/dev/full 2>/dev/null";
    BOOST_CHECK_MESSAGE(WEXITSTATUS(std::system(line.c_str())) == 74, command);
  }
  // Output for a closed stream never lands in another file, and losing progress output does not stop training.
  const std::string line =
      "cd " + folder.path.string() + " && rm -r m && " + programs_folder() + "/reverse train --max-steps 3 ";
  for (const char* streams : {"2>&-", ">&- 2>&- <&-", "2>/dev/full"}) {
    BOOST_CHECK_EQUAL(WEXITSTATUS(std::system((line + "--log-interval 1 --out m " + streams).c_str())), 0);
    BOOST_CHECK_MESSAGE(fs::exists(folder.path / "m/config.json"), streams);
    std::ifstream metrics(folder.path / "m/metrics.jsonl");
    for (std::string text; std::getline(metrics, text);) BOOST_CHECK(Json::accepts(text));
  }
  // If the reader of the output goes away, training saves its state and stops.
  const std::string unheard = "cd " + folder.path.string() + " && { " + programs_folder() +
                              "/reverse train --log-interval 1 --out n 2>&1; echo $? >code; } | head -1 >/dev/null";
  BOOST_CHECK_EQUAL(std::system(unheard.c_str()), 0);
  BOOST_CHECK_EQUAL(read(folder.path / "code"), "141\n");
  BOOST_CHECK_EQUAL(folder.run({"reverse", "eval", "--model", "n"}).code, 0);
  // Anything in the way of an output file is reported before work begins.
  fs::create_directories(folder.path / "full");
  fs::create_symlink("/dev/full", folder.path / "full/metrics.jsonl");
  check_refused(folder, {"reverse", "train", "--max-steps", "1", "--out", "full"}, 2, "metrics.jsonl' is in the way");
}

// Escape sequences in a path never reach the terminal.
BOOST_AUTO_TEST_CASE(messages_are_printable) {
  const Folder folder;
  const std::string odd = "no\x1b[31m";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"reverse", "train", "--out", "/dev/null/" + odd},
                                             {"reverse", "train", "--config", odd},
                                             {"reverse", "train", "--" + odd},
                                             {"reverse", "predict", "--model", odd},
                                             {"addsub", "train", "--data", odd}}) {
    const Result r = folder.run(command);
    BOOST_CHECK_MESSAGE(
        r.code == 2 && r.err.find('\x1b') == std::string::npos && r.err.find("no\\x1b") != std::string::npos, r.err);
  }
  check_refused(folder, {"addsub", "train", "--data", "\xff.json"}, 2, "--data");
  const Result r = folder.run({"reverse", "train", "--max-steps", "1", "--out", odd, "--report"});
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.find('\x1b') == std::string::npos, r.err);
}

// Signals are caught during training; afterwards, the previous handlers are restored.
BOOST_AUTO_TEST_CASE(signals_are_given_back) {
  const int signals[] = {SIGINT, SIGTERM};
  const auto handlers = [&] {
    std::vector<void (*)(int)> all;
    for (const int signal : signals) {
      struct sigaction now {};
      ::sigaction(signal, nullptr, &now);
      all.push_back(now.sa_handler);
    }
    return all;
  };
  ::signal(SIGINT, SIG_DFL);  // a shell starts background jobs with SIGINT ignored
  ::signal(SIGTERM, SIG_IGN);
  const auto before = handlers();
  BOOST_CHECK(before[0] != before[1]);
  {
    const seppo::CatchInterrupts interrupts;
    const auto now = handlers();
    BOOST_CHECK(now[0] != before[0] && now[1] != before[1] && now[0] == now[1]);
  }
  BOOST_CHECK(handlers() == before);
  ::signal(SIGTERM, SIG_DFL);
}

// The nearest name is suggested if at most a third of its letters differ; among equally near names, the first.
BOOST_AUTO_TEST_CASE(guesses_are_near) {
  const auto guess = [](const char* name, const std::vector<std::string>& names) {
    return examples::nearest_option(name, names);
  };
  BOOST_CHECK_EQUAL(guess("xr", {"lr"}), "");
  BOOST_CHECK_EQUAL(guess("lrx", {"x", "lr", "lr-x", "lrs"}), "lr");
  BOOST_CHECK_EQUAL(guess("abcxyf", {"abcdef"}), "abcdef");
  BOOST_CHECK_EQUAL(guess("abxyzf", {"abcdef"}), "");
  BOOST_CHECK_EQUAL(guess("abcdxx", {"abcdef", "abcdxf", "abcdex"}), "abcdxf");
  BOOST_CHECK_EQUAL(guess("bcdef", {"abcdef"}), "abcdef");
  BOOST_CHECK_EQUAL(guess("--warmup_step", {"lr", "warmup-steps"}), "warmup-steps");
  BOOST_CHECK_EQUAL(guess("learning_rate", {"clip-norm", "lr"}), "");
}

// Words keep their order, each line is as full as possible, and indented lines remain unchanged.
BOOST_AUTO_TEST_CASE(paragraphs_are_wrapped) {
  const auto word = [](int i) {
    return std::string(static_cast<std::size_t>(1 + i * i % 13), static_cast<char>('a' + i % 26));
  };
  std::string text;
  for (int i = 0; i < 200; ++i) text += word(i) + (i % 20 == 19 ? "\n" : " ");
  std::istringstream lines(examples::wrapped_paragraphs(text + "\n  as   it is\nlast one"));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  BOOST_REQUIRE_GT(all.size(), 10u);
  BOOST_CHECK(std::vector(all.end() - 3, all.end()) == (std::vector<std::string>{"", "  as   it is", "last one"}));
  all.resize(all.size() - 3);
  int next = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::string& own : words(all[i])) BOOST_CHECK_EQUAL(own, word(next++));
    BOOST_CHECK_LE(all[i].size(), 80u);
    if (i + 1 < all.size()) BOOST_CHECK_GT(all[i].size() + 1 + words(all[i + 1]).at(0).size(), 80u);
  }
  BOOST_CHECK_EQUAL(next, 200);
  const std::string left(40, 'l'), right(39, 'r');  // 80 columns together
  BOOST_CHECK_EQUAL(examples::wrapped_paragraphs(left + "\n" + right), left + " " + right + "\n");
  BOOST_CHECK_EQUAL(examples::wrapped_paragraphs(left + "\n" + right + "r"), left + "\n" + right + "r\n");
  // At least two spaces separate a name from its text, which starts at column 24, on the next line if necessary.
  for (std::size_t size = 1; size < 40; ++size) {
    const std::string name(size, 'n');
    const std::string gap = size <= 20 ? std::string(22 - size, ' ') : "\n" + std::string(24, ' ');
    BOOST_CHECK_EQUAL(examples::help_entry(name, "text"), "  " + name + gap + "text\n");
  }
}
