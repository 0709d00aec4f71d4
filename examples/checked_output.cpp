// Linked into each small program: it exits with 74 if its standard output could not be written, to a full disk for
// example. The C library would say nothing at the end of main().
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace {

void check_output() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  std::fputs("standard output: cannot write\n", stderr);
  std::_Exit(74);
}

[[maybe_unused]] const bool is_checked = std::atexit(check_output) == 0;

}  // namespace
