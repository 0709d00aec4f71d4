// --man: the manual page of a program. (Linux, man-pages(7) and groff_man(7))
#include "app/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace examples {
namespace {

// As roff prints it: no control line, and dashes that can be copied.
std::string roff(std::string_view text) {
  std::string escaped;
  if (text.starts_with('.') || text.starts_with('\'')) escaped = "\\&";
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
  }
  return escaped;
}

// Lines that begin with a space are examples, and stay as they are.
std::string paragraphs(std::string_view text) {
  std::string page;
  bool is_example = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool begins = line.starts_with(' ');
    if (begins != is_example) page += begins ? ".PP\n.EX\n" : ".EE\n.PP\n";
    is_example = begins;
    page += line.empty() ? ".PP\n" : roff(line) + "\n";
  }
  return page + (is_example ? ".EE\n" : "");
}

std::string entry(const OptionText& option) {
  const std::string kind = option.kind.empty() ? "" : fmt::format(" \\fI{}\\fR", roff(option.kind));
  const std::string value = option.value.empty() ? "" : fmt::format(" [{}]", roff(option.value));
  return fmt::format(".TP\n\\fB\\-\\-{}\\fR{}\n{}{}\n", roff(option.name), kind, roff(option.help), value);
}

std::string options(const CommandText& command) {
  std::string page, section;
  for (const OptionText& option : command.options) {
    if (option.section != section) page += fmt::format(".PP\n{}:\n", roff(option.section));
    section = option.section;
    page += entry(option);
  }
  return page;
}

std::string synopsis(const std::string& program, const CommandText& command) {
  std::string line = fmt::format(".br\n\\fB{}\\fR", roff(program));
  if (!command.name.empty()) line += fmt::format(" \\fB{}\\fR", roff(command.name));
  if (!command.words.empty()) line += fmt::format(" \\fI{}\\fR", roff(command.words));
  return line + "\n";
}

// The first sentence, in one line, without "addsub: ".
std::string summary(const ProgramText& program) {
  std::string text = program.about.substr(0, program.about.find(". "));
  if (const std::size_t colon = text.find(": "); colon < text.find(' ')) text.erase(0, colon + 2);
  text = text.substr(0, text.find("\n\n"));
  std::ranges::replace(text, '\n', ' ');
  while (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

std::string manual_page(const ProgramText& program) {
  std::string page = fmt::format(".TH \"{}\" 1 \"\" \"seppo {}\" \"seppo\"\n", roff(program.name), SEPPO_VERSION);
  page += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n", roff(program.name), roff(summary(program)));
  for (const CommandText& command : program.commands) page += synopsis(program.name, command);
  page += ".SH DESCRIPTION\n" + paragraphs(program.about);
  for (const CommandText& command : program.commands) {
    if (command.name.empty()) {
      page += ".SH OPTIONS\n";
    } else {
      page += fmt::format(".SH {}\n{}\n.PP\n", roff(command.name), roff(command.summary));
      page += paragraphs(command.about);
    }
    page += options(command);
  }
  page +=
      ".SH EXIT STATUS\n0 for success; 1 for a failure, such as invalid file content or too little memory; 2 for a "
      "usage error; 74 for a file that cannot be read or written; 128 + n if signal n ended the program.\n";
  return page;
}

}  // namespace examples
