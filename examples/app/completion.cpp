// --completion: what bash and zsh complete. (Bash's manual, "Programmable Completion"; zshcompsys(1), _arguments)
#include "app/command_line.h"
#include "app/description.h"

#include <fmt/format.h>

#include <algorithm>

namespace examples {
namespace {

// The name of a shell's function.
std::string function_of(std::string program) {
  std::ranges::replace_if(
      program, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return "_" + program;
}

bool takes_path(const OptionText& option) { return option.kind == "PATH"; }

// ---- bash: by the words before the cursor

constexpr const char* kBashBegin = R"(# bash completion of {0}
{1}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command={2}
  [ "$word" != = ] || word=
  [ "$before" != = ] || before=${{COMP_WORDS[COMP_CWORD-2]}}
  COMPREPLY=()
)";

constexpr const char* kBashEnd = R"(}}
complete -o default -F {1} {0}
)";

// Offers these words.
std::string reply(const std::vector<std::string>& words) {
  return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", fmt::join(words, " "));
}

// The value of the option before the cursor: a name, a file, or nothing that could be known.
std::string bash_values(const CommandText& command) {
  std::string cases;
  for (const OptionText& option : command.options) {
    if (option.kind.empty()) continue;
    std::string offer = "compopt +o default";
    if (takes_path(option)) offer = ":";  // readline completes files
    if (!option.words.empty()) offer = reply(option.words);
    cases += fmt::format("    '{} --{}') {}; return ;;\n", command.name, option.name, offer);
  }
  return cases;
}

std::vector<std::string> option_words(const CommandText& command) {
  std::vector<std::string> words;
  for (const OptionText& option : command.options) words.push_back("--" + option.name);
  return words;
}

std::string bash_completion(const ProgramText& program) {
  const std::string function = function_of(program.name);
  const bool has_commands = !program.commands[0].name.empty();
  std::string script = fmt::format(kBashBegin, program.name, function, has_commands ? "${COMP_WORDS[1]}" : "");
  if (has_commands) {
    std::vector<std::string> names;
    for (const CommandText& command : program.commands) names.push_back(command.name);
    for (const char* general : {"--help", "--version", "--build-info"}) names.push_back(general);
    script += fmt::format("  if [ \"$COMP_CWORD\" = 1 ]; then {}; return; fi\n", reply(names));
  }
  script += "  case \"$command $before\" in\n";
  for (const CommandText& command : program.commands) script += bash_values(command);
  script += "  esac\n  case \"$command\" in\n";
  for (const CommandText& command : program.commands)
    script += fmt::format("    '{}') {} ;;\n", command.name, reply(option_words(command)));
  return script + "  esac\n" + fmt::format(kBashEnd, program.name, function);
}

// ---- zsh: _arguments takes a text for each option, with what may follow it

// Within single quotes, and within what _arguments splits at colons and brackets.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'')
      escaped += "'\\''";
    else if (c == ':' || c == '[' || c == ']' || c == '\\')
      escaped += std::string("\\") + c;
    else
      escaped += c;
  }
  return escaped;
}

std::string zsh_option(const OptionText& option) {
  if (option.kind.empty()) return fmt::format("'--{}[{}]'", option.name, zsh_text(option.help));
  std::string values = " ";
  if (takes_path(option)) values = "_files";
  if (!option.words.empty()) values = fmt::format("({})", fmt::join(option.words, " "));
  return fmt::format("'--{}=[{}]:{}:{}'", option.name, zsh_text(option.help), zsh_text(option.kind), values);
}

std::string zsh_arguments(const CommandText& command) {
  std::string script = "_arguments";
  for (const OptionText& option : command.options) script += " \\\n    " + zsh_option(option);
  return script + (command.words.starts_with('[') ? "" : " \\\n    '*:file:_files'") + "\n";
}

std::string zsh_completion(const ProgramText& program) {
  std::string script = fmt::format("#compdef {0}\n# zsh completion of {0}\n", program.name);
  if (program.commands[0].name.empty()) return script + zsh_arguments(program.commands[0]);
  script += "if (( CURRENT == 2 )); then\n  local -a commands=(";
  for (const CommandText& command : program.commands)
    script += fmt::format("\n    '{}:{}'", command.name, zsh_text(command.summary));
  script += ")\n  _describe command commands\n  return\nfi\nlocal command=$words[2]\nshift words\n(( CURRENT-- ))\n";
  script += "case $command in\n";
  for (const CommandText& command : program.commands)
    script += fmt::format("  {})\n  {}  ;;\n", command.name, zsh_arguments(command));
  return script + "esac\n";
}

}  // namespace

std::string completion(const ProgramText& program, const std::string& shell) {
  if (shell == "bash") return bash_completion(program);
  if (shell == "zsh") return zsh_completion(program);
  throw UsageError(fmt::format("--completion: '{}' is not one of bash, zsh", shell));
}

}  // namespace examples
