// Command lines of the example programs: an option for each field of a config, parsed by Boost Program Options.
//
//   TrainerConfig config;
//   bool as_json = false;
//   CommandLine line("addsub train [options]", "Trains a model.");
//   line.fields("training", config);              // --lr X, --warmup-steps N, ...
//   line("json", as_json, "print the result as one JSON object");
//   if (!line.parse(arguments)) return 0;         // --help, --version or --dump-config has been answered
//
// A field d_model is the option --d-model; n_heads, a number of heads, is --heads (--n-heads is accepted). The value of
// a variable before parse() is the default. Options are long and spelt in full; numbers are plain decimals within their
// range; --no-NAME turns off a flag that is on. Anything else throws UsageError, which names the option and the rule.
// Ranks (nn/train/ranks.h) must have the same options, except for paths, --threads and what they print.
//
// A program's exit code: 0 for success; 1 for a failure, such as invalid file content or too little memory; 2 for a
// usage error; 74 for a file that cannot be read or written (EX_IOERR of sysexits.h); 128 + n if signal n ended it.
#pragma once

#include "app/description.h"
#include "app/printable.h"

#include <seppo/nn/config.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace examples {

using Arguments = std::vector<std::string>;

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CommandLine : public seppo::ConfigVisitor {
 public:
  // `usage` begins with the program's name; `about` is the text below it in --help.
  CommandLine(std::string usage, std::string about);
  CommandLine(const CommandLine&) = delete;

  // Starts a group of options in --help.
  void section(const std::string& title) { section_ = title; }

  // The fields of a config, which is stored under `key` in what --dump-config prints and --config reads. `config` must
  // outlive the command line. parse() also checks the rules between its fields.
  template <class Config>
  void fields(const std::string& key, Config& config) {
    key_ = key;
    section(static_cast<char>(std::toupper(key[0])) + key.substr(1));
    config.fields(*this);
    key_.clear();
    parts_[key] = [&config] { return seppo::to_json_object(config); };
    if constexpr (requires { config.validate(); }) checks_.push_back([&config] { config.validate(); });
  }

  // Another config of the program, whose options this command does not have, but a file for --config may.
  void other_part(const std::string& key) { other_parts_.insert(key); }

  // Positional arguments; without this call they are refused.
  void words(Arguments* target) { words_ = target; }
  // parse() refuses to go on without a path for this option: "--data: a text file is needed".
  void needs(const std::string& option, const std::string& what);
  // The file given for this option must exist.
  void must_exist(const std::string& field) { paths_.push_back(field); }
  std::vector<std::filesystem::path> inputs() const;  // those that are given
  // The text option for this field takes one of these words.
  void one_of(const std::string& field, const std::vector<std::string>& words);
  // If `option` is given, all configs are taken from load(its value), in the form of config(); of their options, only
  // `free` and the file options may then be given.
  void take_all_from(const std::string& option, std::function<nlohmann::json(const std::string&)> load,
                     std::vector<std::string> free);
  // parse() calls `settle` once all options are set, before it prints or checks them further: for values that depend on
  // other options.
  void settle(std::function<void()> settle) { settle_ = std::move(settle); }
  // parse() calls `check` once all options are set, unless they are only printed; `check` throws UsageError, or
  // ArgumentError that names fields.
  void check(std::function<void()> check) { last_checks_.push_back(std::move(check)); }
  // Options for --help to show, besides those of the section "General"; --help-all shows all. Without this call, both
  // do.
  void show(const std::vector<std::string>& options) { shown_.insert(shown_.end(), options.begin(), options.end()); }
  // A second name for an option, not shown in --help.
  void alias(const std::string& name, const std::string& option) { aliases_[name] = option; }

  // False if parse() has answered --help, -h, --help-all, --version or --dump-config, or describe() asks for it.
  bool parse(const Arguments& arguments);
  bool typed(const std::string& option) const;  // on the command line
  bool given(const std::string& option) const;  // there, or in a file of options

  const std::filesystem::path& path(const std::string& option) const;  // the value of an option that is one

  // {"program": ..., and each config under its key}, with their present values.
  nlohmann::json config() const;
  const std::string& program() const { return program_; }

 private:
  struct Option {
    seppo::Field field;  // refers to the value
    std::string name, key, section;
    std::vector<std::string> words;  // the texts that are allowed; any if empty

    bool is_set_by_data() const { return field.options.source == seppo::Source::data; }
    bool* flag() const;                   // null if the value has another type
    std::filesystem::path* path() const;  // the same
    bool is_on() const;

    std::string kind() const;  // as --help names a value: N, X, NAME ...
    std::string help() const;
    std::string value() const;                // as --help shows it
    std::vector<std::string> names() const;   // that are allowed, if these are all
    void set(const std::string& text) const;  // throws UsageError
  };
  void add(const seppo::Field& field);

  const Option* find(const std::string& name) const;  // null if there is none
  void read_config(const std::string& file);
  void apply(const nlohmann::json& config, const std::string& where);
  void read_options(const Arguments& arguments);
  void compare_ranks() const;  // throws seppo::StateError, naming an option that differs
  void check_rules() const;
  void run(const std::vector<std::function<void()>>& checks) const;
  bool has_moved(const std::string& option) const;
  bool is_shown(const OptionText& option) const;
  std::vector<OptionText> option_texts() const;
  std::string about() const;  // with the program's name as it was typed
  std::string help(bool shows_all) const;

  std::string program_, usage_, about_, section_, key_;
  std::filesystem::path config_file_;
  std::vector<Option> options_;
  std::vector<std::string> paths_, typed_, from_file_, shown_;
  std::map<std::string, std::string> aliases_;
  std::map<std::string, std::function<nlohmann::json()>> parts_;
  std::set<std::string> other_parts_;
  std::vector<std::function<void()>> checks_, last_checks_;
  std::function<void()> settle_;
  struct {
    std::string option;
    std::function<nlohmann::json(const std::string&)> load;
    std::vector<std::string> free;
  } source_;  // take_all_from()
  Arguments* words_ = nullptr;
};

// The value of an option on which the defaults of others depend (--preset), read before they are parsed; `fallback` if
// it is not given.
std::string option_in(const Arguments& arguments, const std::string& name, const std::string& fallback);

// The same for a choice; also returns the fallback if the value is not one of its names, which parse() then refuses.
template <class E>
requires std::is_enum_v<E> E option_in(const Arguments& arguments, const std::string& name, E fallback) {
  const auto names = enum_names(E{});
  const std::string chosen = option_in(arguments, name, names[static_cast<std::size_t>(fallback)]);
  const auto found = std::find(names.begin(), names.end(), chosen);
  return found == names.end() ? fallback : static_cast<E>(found - names.begin());
}

// Calls f with each of the texts or, if there are none, with each line of standard input, of at most 1 MiB. A blank
// line there gives a blank line, and errors name the line.
void for_each_text(const Arguments& texts, const std::function<void(const std::string& text)>& f);

// A program made of sub-commands.
struct Command {
  std::string name, summary;
  std::function<int(const Arguments& arguments)> run;
  bool is_program = false;  // another one, which has a manual page of its own
};

// Runs f and checks that all of its standard output was written. Turns exceptions into one line on standard error,
// which begins with the program's name, and an exit code.
int guarded(const char* argv0, const std::function<int()>& f);

bool is_help(const std::string& argument);
void print_version(const std::string& program);

// What the command's parse() accepts: it fills what this returns instead, if that is not null.
CommandText describe(const Command& command);
CommandText* described_command();

// A program with one command. Runs it, guarded.
int run_command(int argc, char** argv, const std::function<int(const Arguments& arguments)>& run);
// Runs the sub-command that argv names, guarded.
int run_commands(int argc, char** argv, const std::string& about, const std::vector<Command>& commands);

}  // namespace examples
