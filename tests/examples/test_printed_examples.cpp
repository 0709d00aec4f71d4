// What programs print about data, answers and progress is true.
// needs: programs: all
#include "app/progress.h"
#include "support/matches.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <thread>

using namespace test;

namespace {

int result_of(const std::string& a, const std::string& sign, const std::string& b) {
  return sign == "+" ? std::stoi(a) + std::stoi(b) : std::stoi(a) - std::stoi(b);
}

// For -3: "NEGATIVE 03".
std::string spelled(int x) {
  return (x < 0 ? "NEGATIVE " : "POSITIVE ") + std::to_string(std::abs(x) / 10) + std::to_string(std::abs(x) % 10);
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_of_data) {
  const Folder folder;
  const std::string out = folder.run({"addsub", "data", "--head", "30", "--seed", "3"}).out;
  const auto legend = matches(out, "([0-9]+) ([A-Za-z]+)(?=, |\n$)");
  std::map<std::string, std::string> ids;
  for (const auto& m : legend) ids[m[2]] = m[1];
  BOOST_CHECK_EQUAL(ids.size(), 6u);
  const auto encoded = [&](const std::string& text) {
    std::string all;
    for (const std::string& word : words(text))
      if (ids.contains(word))
        all += ids[word] + " ";
      else
        for (const char digit : word) all += std::string(1, digit) + " ";
    return all.substr(0, all.size() - 1);
  };
  const auto rows = matches(out, "(-?[0-9]+) ([-+]) (-?[0-9]+) = (-?[0-9]+)\n  (.*)  ->  (.*)\n  (.*)  ->  (.*)\n");
  BOOST_REQUIRE_EQUAL(rows.size(), 30u);
  std::set<std::string> seen;
  for (const auto& m : rows) {
    const int result = result_of(m[1], m[2], m[3]);
    BOOST_CHECK_EQUAL(m[4], std::to_string(result));
    BOOST_CHECK_EQUAL(m[5], "BOS " + spelled(std::stoi(m[1])) + (m[2] == "+" ? " add " : " subtract ") +
                                spelled(std::stoi(m[3])) + " EOS");
    BOOST_CHECK_EQUAL(m[6], "BOS " + spelled(result) + " EOS");
    BOOST_CHECK_EQUAL(m[7], encoded(m[5]));
    BOOST_CHECK_EQUAL(m[8], encoded(m[6]));
    seen.insert(m[5]);
  }
  BOOST_CHECK_GT(seen.size(), 25u);
  BOOST_CHECK_NE(out.find("\n30 of 5000 rows; "), std::string::npos);
}

BOOST_AUTO_TEST_CASE(rows_of_sequences) {
  const Folder folder;
  std::set<std::string> seen;
  const auto rows_of = [&](const Words& command, std::size_t count, const std::string& end) {
    const std::string out = folder.run(command).out;
    BOOST_CHECK_MESSAGE(out.ends_with(end), out);
    const auto rows = matches(out, "([0-9 ]+)  ->  ([0-9 ]+)\n");
    BOOST_REQUIRE_EQUAL(rows.size(), count);
    std::vector<std::pair<std::string, std::string>> texts;
    for (const auto& m : rows) texts.emplace_back(m[1], m[2]);
    for (const auto& [sequence, answer] : texts) BOOST_CHECK(seen.insert(sequence).second);
    return texts;
  };
  const Words reverse{"reverse", "data", "--seed", "5", "--head", "7"};
  for (const auto& [digits, answer] : rows_of(reverse, 7, "\n7 of 50000 rows\n"))
    BOOST_CHECK_EQUAL(answer, std::string(digits.rbegin(), digits.rend()));
  for (const auto& [sequence, answer] : rows_of({"count", "data"}, 10, "\n10 of 50000 rows\n")) {
    const Words symbols = words(sequence);
    BOOST_CHECK_EQUAL(std::stol(answer), std::ranges::count(symbols, "0"));
  }
  const Words largest{"count", "data", "--question", "largest", "--seed", "1"};
  for (const auto& [sequence, answer] : rows_of(largest, 10, "\n10 of 50000 rows\n")) {
    int most = 0;
    for (const std::string& symbol : words(sequence)) most = std::max(most, std::stoi(symbol));
    BOOST_CHECK_EQUAL(std::stoi(answer), most);
  }
}

// Without noise, all elements of a set but the odd one are equal.
BOOST_AUTO_TEST_CASE(rows_of_sets) {
  const Folder folder;
  const std::string out = folder.run({"odd_one", "data", "--noise", "0", "--features", "2", "--head", "4"}).out;
  BOOST_CHECK_MESSAGE(out.ends_with("\n4 of 20000 rows\n"), out);
  const auto sets = matches(out, "set ([0-9]): the odd one is ([0-9])((\n  [0-9]: .*){10})\n");
  BOOST_REQUIRE_EQUAL(sets.size(), 4u);
  for (const auto& m : sets) {
    const std::string lines = m[3];
    const auto elements = matches(lines, "\n  [0-9]: (.*)");
    const auto odd = static_cast<std::size_t>(std::stoi(m[2]));
    for (std::size_t e = 0; e < 10; ++e) BOOST_CHECK_EQUAL(elements[e][1] == elements[(odd + 1) % 10][1], e != odd);
  }
}

BOOST_AUTO_TEST_CASE(rows_of_pairs) {
  const Folder folder;
  folder.write("a", "one two\none three\nfour\nfive\n");
  folder.write("b", "eins zwei\neins drei\nvier\nfive\n");
  const Words files{"translate",    "data", "--src",    "a",     "--tgt",           "b",
                    "--validation", "1",    "--tokens", "words", "--min-frequency", "1"};
  const std::string out = folder.run(with(files, {"--head", "2"})).out;
  // three tokens that are not words, with one, two and three, four, and with eins, zwei, drei, vier
  BOOST_CHECK_EQUAL(out,
                    "one two  ->  eins zwei\none three  ->  eins drei\n2 of 3 training pairs; 1 validation pairs (0 "
                    "of them in training too); 7 and 7 tokens\n");
  const std::string tasks = folder.run({"translate", "data", "--seed", "2", "--head", "40"}).out;
  const auto rows = matches(tasks, "(.*)  ->  (.*)\n");
  BOOST_CHECK_EQUAL(rows.size(), 40u);
  for (const auto& m : rows) BOOST_CHECK_NE(m[1], m[2]);
  BOOST_CHECK_NE(folder.run({"translate", "data", "--seed", "3", "--head", "40"}).out, tasks);
}

BOOST_AUTO_TEST_CASE(rows_of_a_text) {
  const Folder folder;
  folder.write("t", "abcabcabcabcab\ncab");
  const std::string out = folder.run({"charlm", "data", "--data", "t", "--train-share", "0.5", "--block", "4"}).out;
  BOOST_CHECK_EQUAL(out, "abca\n  1 2 3 1\nb⏎ca\n  2 0 3 1\n2 of 2 rows\n");
  check_refused(folder, {"charlm", "data"}, 2, "--data: a text file is needed");
}

// Of all wrong answers, twenty are listed, followed by the number of the others.
BOOST_AUTO_TEST_CASE(wrong_answers, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder;
  BOOST_REQUIRE_EQUAL(folder.run({"addsub", "train", "--max-steps", "500", "--out", "m", "--log-format", "none"}).code,
                      0);
  const Result r = folder.run({"addsub", "eval", "--model", "m", "--all", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const auto said = last_line(r.out);
  const auto wrong = matches(r.out, "  wrong: (-?[0-9]+) ([-+]) (-?[0-9]+) = (-?[0-9]+), got (.*)\n");
  const double all = said["all_examples"].get<double>() * (1 - said["all_exact"].get<double>());
  BOOST_CHECK_GT(all, 20);  // too short a run to learn them all
  BOOST_CHECK_EQUAL(wrong.size(), 20u);
  for (const auto& m : wrong) {
    BOOST_CHECK_EQUAL(m[4], std::to_string(result_of(m[1], m[2], m[3])));
    BOOST_CHECK_NE(m[5], spelled(std::stoi(m[4])));
    const std::string asked = m[1] + " " + m[2] + " " + m[3];
    const Result answer = folder.run({"addsub", "predict", "--model", "m", "--", asked});
    BOOST_CHECK_MESSAGE(answer.code == 0 && answer.out.ends_with("   wrong: it is " + m[4] + "\n"),
                        asked << ": " << answer.out);
    if (&m == &wrong[2]) break;
  }
  check_refused(folder, {"addsub", "eval", "--model", "m", "--data", "none"}, 2, "--data: there is no file 'none'");
  const auto more = matches(r.out, "  \\.\\.\\. and ([0-9]+) more\n");
  BOOST_REQUIRE_EQUAL(more.size(), 1u);
  BOOST_CHECK_EQUAL(std::stoi(more[0][1]), std::lround(all) - 20);
}

// Each positional encoding gives a different model, hence a different loss after the same step.
BOOST_AUTO_TEST_CASE(each_encoding_counts) {
  const Folder folder;
  std::set<double> losses;
  for (const std::string kind :
       {"sinusoid", "cosinusoid", "floor-sinusoid", "count", "simple", "binary", "learned", "none"}) {
    const Result r = folder.run({"addsub", "train", "--positions", kind, "--max-steps", "1", "--out", kind,
                                 "--enc-layers", "1", "--dec-layers", "1", "--log-format", "none", "--json"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    BOOST_CHECK_MESSAGE(losses.insert(last_line(r.out)["val_loss"].get<double>()).second, kind << " is as another");
  }
}

// Single digits form one sequence; longer words are a sequence each; without any, sequences are read from the input.
BOOST_AUTO_TEST_CASE(words_are_sequences) {
  const Folder folder;
  BOOST_REQUIRE_EQUAL(folder.run({"reverse", "train", "--max-steps", "20", "--log-format", "none"}).code, 0);
  const std::string one = "3141592653589793", two = "2718281828459045";
  Words digits{"reverse", "predict"};
  for (const char digit : one) digits.emplace_back(1, digit);
  const std::string first = folder.run({"reverse", "predict", one}).out,
                    second = folder.run({"reverse", "predict", two}).out;
  BOOST_CHECK_NE(first, second);
  BOOST_CHECK_EQUAL(folder.run(digits).out, first);
  BOOST_CHECK_EQUAL(folder.run({"reverse", "predict", one, two}).out, first + second);
  BOOST_CHECK_EQUAL(folder.run({"reverse", "predict"}, two + "\n" + one + "\n").out, second + first);
  const Result none = folder.run({"reverse", "predict"}, "");
  BOOST_CHECK_MESSAGE(none.code == 0 && none.out.empty(), none.out << none.err);
}

// The last models, which are averaged, are only those of this run.
BOOST_AUTO_TEST_CASE(an_earlier_training_leaves_nothing) {
  const Folder folder;
  const auto train = [&](const char* steps) {
    BOOST_REQUIRE_EQUAL(folder
                            .run({"reverse", "train", "--average", "4", "--epoch-steps", "3", "--max-steps", steps,
                                  "--out", "m", "--overwrite", "--log-format", "none"})
                            .code,
                        0);
  };
  train("30");
  train("9");
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path / "m")) {
    const std::string name = entry.path().stem().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    BOOST_CHECK_MESSAGE(std::stoi(name) <= 9, entry.path());
    ++files;
  }
  BOOST_CHECK_GE(files, 3u);
}

// The remaining time is that of the remaining steps at the average speed so far, in hours, minutes and seconds.
BOOST_AUTO_TEST_CASE(the_time_left) {
  const Folder folder;
  const fs::path file = folder.path / "err";
  for (const auto& [steps, end] :
       {std::pair(500'000'000, 500'000'000), {20'000'000, 20'000'000}, {500'000'000, 20'000'000}}) {
    std::fflush(stderr);
    const int before = ::dup(2);
    BOOST_REQUIRE(std::freopen(file.c_str(), "w", stderr));
    {
      examples::Progress progress(examples::LogFormat::plain, steps, 10);
      progress.start_at(500);
      if (end < steps) progress.end_at(end);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      progress.step({.step = 1495, .loss = 1, .accuracy = 0.5, .lr = 1});
      progress.step({.step = 1500, .loss = 2.5, .accuracy = 0.25, .gradient_norm = 3, .lr = 1e-3});
    }
    std::fflush(stderr);
    ::dup2(before, 2);
    ::close(before);
    const std::string line = read(file);
    const auto m = matches(line,
                           "^step   1500/([0-9]+) \\| loss 2\\.500 \\| acc 0\\.2500 \\| gnorm 3\\.00 \\| lr 1\\.0e-03 "
                           "\\| ([0-9]+) steps/s \\| eta (?:([0-9]+):)?([0-9]{2}):([0-9]{2})\n$");
    BOOST_REQUIRE_MESSAGE(m.size() == 1, line);
    BOOST_CHECK_EQUAL(std::stoll(m[0][1]), steps);
    const double rate = std::stod(m[0][2]), left = (end - 1500) / rate;
    BOOST_CHECK(rate > 100 && rate <= 20'000);
    BOOST_CHECK(!m[0][3].empty() == (left >= 3600));
    const int minutes = std::stoi(m[0][4]), seconds = std::stoi(m[0][5]);
    BOOST_CHECK(minutes < 60 && seconds < 60);
    const double told = (!m[0][3].empty() ? 3600 * std::stod(m[0][3]) : 0) + 60 * minutes + seconds;
    BOOST_CHECK_LT(std::abs(told - left), 1 + 0.6 / rate * left);
  }
}
