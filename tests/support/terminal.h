// Runs a program on a pseudo-terminal.
#pragma once

#include "support/program.h"

#include <pty.h>
#include <sys/ioctl.h>

namespace test {

// What the program shows on a terminal with the given number of columns.
inline std::string on_terminal(const Folder& folder, int columns, const std::vector<std::string>& command) {
  const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  int terminal = -1;
  std::vector<std::string> words = command;
  words[0] = programs_folder() + "/" + words[0];
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    if (::chdir(folder.path.c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::string shown;
  char buffer[4096];
  for (ssize_t n; (n = ::read(terminal, buffer, sizeof buffer)) > 0;) shown.append(buffer, static_cast<std::size_t>(n));
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  BOOST_CHECK_EQUAL(status, 0);
  std::erase(shown, '\r');
  return shown;
}

// The width of the longest line in characters; "\x1b[K" starts a new line.
inline int widest(const std::string& text) {
  int most = 0, now = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "\x1b[K") == 0) {
      now = 0;
      i += 2;
    } else if (text[i] == '\n')
      now = 0;
    else if ((text[i] & 0xC0) != 0x80)
      most = std::max(most, ++now);
  }
  return most;
}

}  // namespace test
