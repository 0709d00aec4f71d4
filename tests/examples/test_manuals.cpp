// The manual page and the completions of each program, beside its help.
// needs: programs: all
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <regex>
#include <set>
#include <string>
#include <vector>

using namespace test;

namespace {

std::string printed(const Folder& folder, const Words& command) {
  const Result result = folder.run(command);
  BOOST_REQUIRE_MESSAGE(result.code == 0 && result.err.empty(), command[0] << ": " << result.err);
  return result.out;
}

std::vector<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

// What a tool of the system prints, in the folder.
Result run_tool(const Folder& folder, const std::string& command) {
  const std::string line = "cd '" + folder.path.string() + "' && " + command + " > printed 2> complaints";
  const int status = std::system(line.c_str());
  return {status, read(folder.path / "printed"), read(folder.path / "complaints")};
}

bool is_installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null").c_str()) == 0;
}

// The commands of a program, from its help: "  train   train a model"; {} for one that has one command.
Words commands_of(const Folder& folder, const std::string& program) {
  const std::string help = printed(folder, {program, "--help"});
  if (help.find(" COMMAND [options]") == std::string::npos) return {};
  return matches(help, R"(\n  ([a-z_]+)  )");
}

// seppo, and those that it lists.
Words programs(const Folder& folder) {
  Words all{"seppo"};
  for (const std::string& command : commands_of(folder, "seppo"))
    if (command != "inspect" && command != "verify" && command != "export") all.push_back(command);
  BOOST_REQUIRE_GE(all.size(), 14);
  return all;
}

// The options that a command's help lists, sorted.
std::set<std::string> options_of(const Folder& folder, const Words& command) {
  const std::string text = folder.run(with(command, {"--help-all"})).out;
  const std::string help = text.empty() ? printed(folder, with(command, {"--help"})) : text;
  const auto listed = matches(help, R"(\n  (?:-h, )?--([a-z0-9-]+))");
  return {listed.begin(), listed.end()};
}

std::set<std::string> with_dashes(const std::set<std::string>& options) {
  std::set<std::string> words;
  for (const std::string& option : options) words.insert("--" + option);
  return words;
}

// What bash offers for the last word of a line.
std::set<std::string> completed(const Folder& folder, const std::string& script, const std::string& program,
                                const Words& line) {
  folder.write("script", script);
  std::string words = "'" + program + "'";
  for (const std::string& word : line) words += " '" + word + "'";
  folder.write("ask", "source ./script; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(line.size()) + "; _" +
                          program + "; printf '%s\\n' \"${COMPREPLY[@]}\"");
  const Result result = run_tool(folder, "bash ask");
  BOOST_REQUIRE_MESSAGE(result.code == 0 && result.err.empty(), result.err);
  const auto offered = matches(result.out, "([^\n]+)\n");
  return {offered.begin(), offered.end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(pages_have_every_option_of_the_help) {
  const Folder folder;
  for (const std::string& program : programs(folder)) {
    const std::string page = printed(folder, {program, "--man"});
    BOOST_CHECK_MESSAGE(page.starts_with(".TH \"" + program + "\" 1 "), page.substr(0, 60));
    std::string plain = std::regex_replace(page, std::regex(R"(\\fB|\\fI|\\fR)"), "");
    plain = std::regex_replace(plain, std::regex(R"(\\-)"), "-");
    if (const Words commands = commands_of(folder, program); commands.empty()) {
      for (const std::string& option : options_of(folder, {program}))
        BOOST_CHECK_MESSAGE(plain.find("\n--" + option) != std::string::npos, program << ": --" << option);
    } else if (program != "seppo") {
      for (const std::string& command : commands) {
        const std::size_t begin = plain.find("\n.SH " + command + "\n");
        BOOST_REQUIRE_MESSAGE(begin != std::string::npos, program << " " << command);
        const std::string part = plain.substr(begin, plain.find("\n.SH ", begin + 5) - begin);
        const auto listed = matches(part, R"(\n--([a-z0-9-]+))");
        const std::set<std::string> options(listed.begin(), listed.end());
        BOOST_CHECK_MESSAGE(options == options_of(folder, {program, command}), program << " " << command);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(pages_are_roff) {
  if (!is_installed("groff")) {
    std::puts("skipped: groff; install groff-base");
    return;
  }
  const Folder folder;
  for (const std::string& program : programs(folder)) {
    folder.write("page.1", printed(folder, {program, "--man"}));
    const Result checked = run_tool(folder, "groff -k -Kutf8 -man -ww -z -Tutf8 page.1");
    BOOST_CHECK_MESSAGE(checked.code == 0 && checked.err.empty(), program << ": " << checked.err);
  }
}

BOOST_AUTO_TEST_CASE(bash_completes_commands_options_and_names) {
  const Folder folder;
  for (const std::string& program : programs(folder)) {
    const std::string script = printed(folder, {program, "--completion", "bash"});
    const Words commands = commands_of(folder, program);
    if (commands.empty()) {
      BOOST_CHECK(completed(folder, script, program, {"--"}) == with_dashes(options_of(folder, {program})));
      continue;
    }
    std::set<std::string> words(commands.begin(), commands.end());
    words.insert({"--help", "--version", "--build-info"});
    BOOST_CHECK(completed(folder, script, program, {""}) == words);
  }
  const std::string script = printed(folder, {"addsub", "--completion", "bash"});
  BOOST_CHECK(completed(folder, script, "addsub", {"train", "--"}) ==
              with_dashes(options_of(folder, {"addsub", "train"})));
  BOOST_CHECK(completed(folder, script, "addsub", {"train", "--lr", "1", "--nor"}) ==
              (std::set<std::string>{"--norm", "--norm-kind"}));
  const std::set<std::string> norms{"post", "pre"};
  BOOST_CHECK(completed(folder, script, "addsub", {"train", "--norm", ""}) == norms);
  BOOST_CHECK(completed(folder, script, "addsub", {"train", "--norm", "="}) == norms);
  BOOST_CHECK(completed(folder, script, "addsub", {"train", "--norm", "=", "po"}) == std::set<std::string>{"post"});
  BOOST_CHECK(completed(folder, script, "addsub", {"train", "--data", ""}).empty());  // readline offers files
  check_refused(folder, {"addsub", "--completion", "fish"}, 2, "'fish' is not one of bash, zsh");
}

BOOST_AUTO_TEST_CASE(zsh_reads_its_script) {
  if (!is_installed("zsh")) {
    std::puts("skipped: zsh");
    return;
  }
  const Folder folder;
  for (const std::string& program : programs(folder)) {
    folder.write("_script", printed(folder, {program, "--completion", "zsh"}));
    const Result checked = run_tool(folder, "zsh -n _script");
    BOOST_CHECK_MESSAGE(checked.code == 0 && checked.err.empty(), program << ": " << checked.err);
  }
}

// Texts of options are between colons and brackets.
BOOST_AUTO_TEST_CASE(zsh_gets_colons_escaped) {
  const Folder folder;
  const std::string script = printed(folder, {"llm", "--completion", "zsh"});
  BOOST_CHECK(printed(folder, {"llm", "train", "--help-all"}).find("0: d_model") != std::string::npos);
  BOOST_CHECK(script.find("0\\: d_model") != std::string::npos);
  BOOST_CHECK(script.find("0: d_model") == std::string::npos);
}

// Types the line and a tab at a terminal of zsh; what the program is called with.
BOOST_AUTO_TEST_CASE(zsh_completes_files) {
  if (!is_installed("zsh")) {
    std::puts("skipped: zsh");
    return;
  }
  const Folder folder;
  folder.write("_charlm", printed(folder, {"charlm", "--completion", "zsh"}));
  folder.write("sonnets.txt", "");
  folder.write("prepare",
               "fpath=($PWD $fpath)\nautoload -U compinit\ncompinit -u -D\ncharlm() { print -r -- \"<<$*>>\" }\n");
  folder.write("ask",
               "zmodload zsh/zpty\nzpty shell zsh -f -i\nzpty -w shell 'source ./prepare'\n"
               "zpty -n -w shell $'charlm eval sonn\\t\\n'\n"
               "zpty -r shell printed '*<<*>>*'\nprint -r -- $printed\n");
  const Result typed = run_tool(folder, "timeout 60 zsh -f ask");
  BOOST_CHECK_MESSAGE(typed.out.find("<<eval sonnets.txt>>") != std::string::npos, typed.out << typed.err);
}
