// seppo lists the other programs, and becomes them.
// needs: programs: inspect reverse
#include "support/paths.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <csignal>

using namespace test;

namespace {

// The code of a command line for the shell.
int code_of(const std::string& command) { return WEXITSTATUS(std::system((command + " >/dev/null 2>err").c_str())); }

}  // namespace

BOOST_AUTO_TEST_CASE(every_program_is_listed) {
  const Folder folder("front_door");
  const std::string help = folder.run({"seppo", "--help"}).out;
  for (const auto& entry : fs::directory_iterator(source_folder() + "/examples")) {
    if (!fs::exists(entry.path() / "main.cpp")) continue;
    const std::string name = entry.path().filename().string();
    BOOST_CHECK_MESSAGE(help.find("\n  " + name + " ") != std::string::npos, name << " is not in " << help);
  }
}

BOOST_AUTO_TEST_CASE(output_and_exit_codes_are_the_programs) {
  const Folder folder("front_door");
  for (const Words& words :
       {Words{"data", "--head", "2"}, Words{"train", "--norm", "none"}, Words{"--help"}, Words{}}) {
    const Result through = folder.run(with({"seppo", "reverse"}, words)), alone = folder.run(with({"reverse"}, words));
    BOOST_CHECK_EQUAL(through.code, alone.code);
    BOOST_CHECK_EQUAL(through.out, alone.out);
    BOOST_CHECK_EQUAL(through.err, alone.err);
  }
  check_refused(folder, {"seppo", "revers"}, 2, "unknown command 'revers'");
}

// What a report of a fault needs: which build this is, and what computes.
BOOST_AUTO_TEST_CASE(builds_tell_what_they_are) {
  const Folder folder("front_door");
  const Result result = folder.run({"seppo", "--build-info"});
  BOOST_CHECK_EQUAL(result.code, 0);
  const Result version = folder.run({"seppo", "--version"});
  BOOST_CHECK_NE(version.out.find(result.out.substr(result.out.find("version") + 14, 5)), std::string::npos);
  for (const char* fact : {"program", "version", "commit", "compiler", "reals", "instructions", "BLAS", "MPI"}) {
    const std::size_t at = result.out.find(std::string("\n") + fact + " ");
    BOOST_CHECK_MESSAGE(result.out.starts_with(fact) || at != std::string::npos, fact << " is not in " << result.out);
  }
  const auto without_name = [](const std::string& text) { return text.substr(text.find('\n')); };
  for (const Words& words : {Words{"reverse", "--build-info"}, {"reverse", "train", "--build-info"}})
    BOOST_CHECK_EQUAL(without_name(folder.run(words).out), without_name(result.out));
}

BOOST_AUTO_TEST_CASE(signals_reach_the_program) {
  const Folder folder("front_door");
  const pid_t child = folder.start({"seppo", "reverse", "train", "--epochs", "100000", "--out", "m"});
  while (!fs::exists(folder.path / "m/metrics.jsonl")) BOOST_REQUIRE_EQUAL(::waitpid(child, nullptr, WNOHANG), 0);
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_CHECK_EQUAL(WEXITSTATUS(status), 128 + SIGTERM);
}

// Installed programs are called seppo-NAME; seppo may be found on the path.
BOOST_AUTO_TEST_CASE(installed_programs_are_found) {
  const Folder folder("front_door");
  fs::create_directory(folder.path / "bin");
  const std::string bin = (folder.path / "bin").string();
  fs::copy_file(programs_folder() + "/seppo", folder.path / "bin/seppo");
  BOOST_CHECK_EQUAL(code_of("cd '" + bin + "' && ./seppo reverse --version"), 1);
  BOOST_CHECK_NE(read(folder.path / "bin/err").find("neither reverse nor seppo-reverse is beside"), std::string::npos);
  fs::create_symlink(programs_folder() + "/reverse", folder.path / "bin/seppo-reverse");
  BOOST_CHECK_EQUAL(code_of("cd '" + bin + "' && ./seppo reverse --version"), 0);
  BOOST_CHECK_EQUAL(code_of("cd '" + bin + "' && PATH=\"$PWD:$PATH\" seppo reverse train --norm none"), 2);
}
