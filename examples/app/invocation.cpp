// Remembers argv[0], and quotes words.
#include "app/invocation.h"

#include "app/printable.h"

#include <filesystem>

namespace examples {
namespace {

std::string& typed() {
  static std::string argv0;
  return argv0;
}

}  // namespace

void set_program_as_typed(const std::string& argv0) { typed() = argv0; }

std::string program_as_typed(const std::string& name) {
  return shown_line(shell_word(typed().empty() ? name : typed()));
}

std::string program_file(const std::string& name) {
  const std::string file = std::filesystem::path(typed()).filename().string();
  return shown_line(file.empty() ? name : file);
}

std::string shell_word(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace examples
