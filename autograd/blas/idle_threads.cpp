// Runs a program again without OpenBLAS's idle threads. Setting its environment variable would be too late: they were
// started before main().
#include "idle_threads.h"

#include "library.h"

#include <cstdlib>

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>
#endif

namespace seppo {
inline namespace SEPPO_ABI {

#ifdef __linux__
namespace {

constexpr const char* kThreads = "OPENBLAS_NUM_THREADS";

bool is_address_space_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// The arguments of this process, each ended by a zero byte.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string path_of_program() {
  std::vector<char> path(4096);
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

}  // namespace

void restart_without_idle_blas_threads() {
  if (!is_address_space_limited() || blas_threads() == 1 || std::getenv(kThreads)) return;
  std::string words = command_line();
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < words.size(); at = words.find('\0', at) + 1) arguments.push_back(&words[at]);
  arguments.push_back(nullptr);
  setenv(kThreads, "1", 1);
  execv(path_of_program().c_str(), arguments.data());
  unsetenv(kThreads);  // it could not be started
}
#else
void restart_without_idle_blas_threads() {}
#endif

}  // namespace SEPPO_ABI
}  // namespace seppo
