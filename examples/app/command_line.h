// Command lines of the example programs: Boost Program Options with every value checked.
//
// Options are long and spelt in full; numbers are plain decimal and within their range; anything else
// throws UsageError, which names the option and the rule. Programs exit with 2 for usage, 1 for any
// other failure, 0 otherwise.
#pragma once

#include <boost/program_options/options_description.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CommandLine {
 public:
  // `usage` is the first line of --help, `about` the text below it.
  CommandLine(std::string usage, std::string about);

  // Starts a group of options in --help.
  void section(const std::string& title);

  // Each target holds the default before and the given value after parse().
  void integer(const std::string& name, int* target, int least, int most, const std::string& help);
  void seed(const std::string& name, std::uint64_t* target, const std::string& help);
  void number(const std::string& name, double* target, double least, double most, const std::string& help);
  void pair(const std::string& name, double* first, double* second, double least, double most, const std::string& help);
  void text(const std::string& name, std::string* target, const std::string& what, const std::string& help);
  void existing_path(const std::string& name, std::filesystem::path* target, const std::string& help);
  void path(const std::string& name, std::filesystem::path* target, const std::string& help);
  void choice(const std::string& name, std::string* target, const std::vector<std::string>& choices,
              const std::string& help);
  // Where the default is true, there is --no-NAME, too.
  void flag(const std::string& name, bool* target, const std::string& help);
  // Words that are not options; without this call they are refused.
  void words(std::vector<std::string>* target) { words_ = target; }

  // False if --help was asked for and printed.
  bool parse(const std::vector<std::string>& arguments);
  bool given(const std::string& name) const;

 private:
  using Setter = std::function<void(const std::string& value)>;
  void add(const std::string& name, const std::string& what, const std::string& default_text, const std::string& help,
           const Setter& set);

  std::string usage_, about_;
  std::vector<boost::program_options::options_description> sections_;
  std::vector<std::string>* words_ = nullptr;
  std::vector<std::string> given_;
};

// The value of an option before the others are parsed, since defaults of theirs depend on it, --preset's say;
// `fallback` without it.
std::string option_in(const std::vector<std::string>& arguments, const std::string& name, const std::string& fallback);

// A program made of sub-commands.
struct Command {
  std::string name, summary;
  std::function<int(const std::vector<std::string>& arguments)> run;
};

// Calls f with each of the texts or, if there are none, with each line of standard input; there a blank line gives a
// blank line, and errors name the line.
void for_each_text(const std::vector<std::string>& texts, const std::function<void(const std::string& text)>& f);

// Runs f; turns exceptions into one line on standard error, which begins with the program's name, and an
// exit code.
int guarded(const char* argv0, const std::function<int()>& f);

// Runs the sub-command that argv names, guarded.
int run_commands(int argc, char** argv, const std::string& about, const std::vector<Command>& commands);

}  // namespace examples
