// Linked into each small program, which then exits with 74 if its standard output could not be written, for example to
// a full disk. The C library would not report this at the end of main(). It also ends where address space is short.
#include <seppo/autograd/blas/idle_threads.h>

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

[[maybe_unused]] const bool is_checked = [] {
  seppo::restart_without_idle_blas_threads();
  return std::atexit(check_output) == 0;
}();

}  // namespace
