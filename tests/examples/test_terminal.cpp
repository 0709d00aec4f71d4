// Lines and colours on a terminal, and elsewhere.
// needs: programs: reverse count odd_one charlm
#include "app/terminal.h"
#include "support/terminal.h"

#include <boost/test/unit_test.hpp>

#include <cstdlib>

using namespace test;
using examples::Colour;

namespace {

// The two ends of a terminal with this many columns.
struct Terminal {
  int far = -1, near = -1;
  explicit Terminal(int columns) {
    const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    BOOST_REQUIRE_EQUAL(::openpty(&far, &near, nullptr, nullptr, &size), 0);
  }
  ~Terminal() {
    ::close(far);
    ::close(near);
  }
};

const std::string kLine = "reverse: 9088 parameters | größere Zahlen 100.0000 %   (1000 fresh sequences), and more";

}  // namespace

// No line is wider than the terminal unless a single word is, no word is broken, and lines are as full as possible.
BOOST_AUTO_TEST_CASE(lines_are_broken_between_words) {
  for (const int columns : {12, 13, 20, 40, 60, 79, 200}) {
    const Terminal terminal(columns);
    const std::string text = examples::fitted(kLine, terminal.near);
    BOOST_CHECK(words(text) == words(kLine));
    BOOST_CHECK_MESSAGE(columns < 16 || widest(text) <= columns, text);
    std::istringstream lines(text);
    std::string line, before;
    while (std::getline(lines, line)) {
      if (!before.empty()) {
        BOOST_CHECK(line.starts_with("    ") && line[4] != ' ');
        BOOST_CHECK_GT(widest(before) + 1 + widest(words(line).front()), columns);
      }
      before = line;
    }
  }
  const Terminal wide(100);
  BOOST_CHECK_EQUAL(examples::fitted(kLine, wide.near), kLine);
  BOOST_CHECK_EQUAL(examples::fitted("", wide.near), "");
  const Terminal of_mpirun(0);
  BOOST_CHECK_EQUAL(examples::fitted(kLine + kLine, of_mpirun.near), kLine + kLine);
  int pipe[2];
  BOOST_REQUIRE_EQUAL(::pipe(pipe), 0);
  BOOST_CHECK_EQUAL(examples::fitted(kLine + kLine, pipe[1]), kLine + kLine);
}

BOOST_AUTO_TEST_CASE(colours_are_for_terminals) {
  const Terminal terminal(80);
  const auto shown = [&](const char* term, const char* no_color, int descriptor) {
    ::setenv("TERM", term, 1);
    no_color ? ::setenv("NO_COLOR", no_color, 1) : ::unsetenv("NO_COLOR");
    return examples::coloured("text", Colour::red, descriptor);
  };
  const std::string red = "\x1b[31mtext\x1b[m";
  BOOST_CHECK_EQUAL(shown("xterm", nullptr, terminal.near), red);
  BOOST_CHECK_EQUAL(shown("xterm", "", terminal.near), red);
  BOOST_CHECK_EQUAL(shown("xterm", "1", terminal.near), "text");
  BOOST_CHECK_EQUAL(shown("dumb", nullptr, terminal.near), "text");
  const Terminal of_mpirun(0);
  BOOST_CHECK_EQUAL(shown("xterm", nullptr, of_mpirun.near), "text");
  int pipe[2];
  BOOST_REQUIRE_EQUAL(::pipe(pipe), 0);
  BOOST_CHECK_EQUAL(shown("xterm", nullptr, pipe[1]), "text");
}

BOOST_AUTO_TEST_CASE(wrong_answers_are_red_on_a_terminal) {
  const Folder folder("terminal");
  BOOST_REQUIRE_EQUAL(folder.run(words("reverse train --max-steps 1 --log-format none --out m")).code, 0);
  const Words predict = words("reverse predict --model m 3141592653589793");
  ::unsetenv("NO_COLOR");
  const std::string correction = "wrong: it is 3 9 7 9 8 5 3 5 6 2 9 5 1 4 1 3";
  BOOST_CHECK_NE(on_terminal(folder, 80, predict).find("   \x1b[31m" + correction + "\x1b[m\n"), std::string::npos);
  BOOST_CHECK_NE(folder.run(predict).out.find("   " + correction + "\n"), std::string::npos);
}

BOOST_AUTO_TEST_CASE(results_fit_a_narrow_terminal) {
  const Folder folder("terminal");
  std::string text;
  for (int line = 0; line < 40; ++line) text += "the quick brown fox jumps over the lazy dog\n";
  folder.write("text", text);
  for (const std::string program : {"reverse", "count", "odd_one", "charlm"}) {
    const std::string data = program == "charlm" ? " --data text" : "";
    const Result trained = folder.run(words(program + " train --max-steps 1 --log-format none" + data));
    BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
    const Words eval = words(program + " eval" + data);
    const std::string narrow = on_terminal(folder, 30, eval), piped = folder.run(eval).out;
    BOOST_CHECK_MESSAGE(widest(narrow) <= 30, narrow);
    BOOST_CHECK_MESSAGE(widest(piped) > 30, piped);
    BOOST_CHECK_MESSAGE(words(narrow) == words(piped), narrow << piped);
  }
}
