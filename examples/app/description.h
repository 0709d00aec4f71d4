// What a program accepts, as its manual page and the completion of shells tell it.
#pragma once

#include <string>
#include <vector>

namespace examples {

struct OptionText {
  std::string name = {};                // without dashes
  std::string kind = {};                // how a value is named: N, X, PATH ...; empty for a flag
  std::string help = {};                // what it does, and what it allows
  std::string value = {};               // the default, if it has one
  std::vector<std::string> words = {};  // the values that it allows, if they are names
  std::string section = {};
};

struct CommandText {
  std::string name = {};  // empty if the program has one command only
  std::string summary = {}, about = {};
  std::string words = {};  // what follows its name in its usage: "FILE [options]"
  std::vector<OptionText> options = {};
};

struct ProgramText {
  std::string name, about;
  std::vector<CommandText> commands;
};

// The answer to `--man`, a page in man(7) macros, or to `--completion bash` and `--completion zsh`, a script. Throws
// UsageError for another shell.
std::string manual_page(const ProgramText& program);
std::string completion(const ProgramText& program, const std::string& shell);

}  // namespace examples
