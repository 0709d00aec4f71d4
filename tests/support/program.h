// Runs the programs as a user does, in a temporary folder of the test's own.
#pragma once

#include "support/memcheck.h"
#include "support/paths.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace test {

namespace fs = std::filesystem;

struct Result {
  int code;
  std::string out, err;
  double peak_mb = 0;  // peak resident memory; never below that of the process that started it
};

inline std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Splits a command line without quotes into words.
inline std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Options for a character-level translator that memorises a few pairs in seconds.
inline const std::string kSmallTranslator =
    " --tokens characters --min-frequency 1 --d-model 32 --heads 4 --d-ff 64 --enc-layers 1 --dec-layers 1 --dropout 0"
    " --batch-size 8 --lr 0.005 --label-smoothing 0 ";

// A folder of this test's own in which the programs run.
struct Folder {
  fs::path path;
  explicit Folder(const std::string& name = "programs")
      : path(fs::temp_directory_path() / ("seppo-" + name + "-" + std::to_string(::getpid()))) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }

  // Starts the program; its output goes to files next to the folder.
  pid_t start(const std::vector<std::string>& command, const std::string& input = "") const {
    std::ofstream(path.string() + ".in") << input;
    std::vector<std::string> words = command;
    words[0] = programs_folder() + "/" + words[0];
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::fflush(nullptr);  // otherwise the child would print our buffers again
    const pid_t child = ::fork();
    if (child == 0) {
      const bool ready = ::chdir(path.c_str()) == 0 && std::freopen((path.string() + ".in").c_str(), "r", stdin) &&
                         std::freopen((path.string() + ".out").c_str(), "w", stdout) &&
                         std::freopen((path.string() + ".err").c_str(), "w", stderr);
      if (ready) ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    return child;
  }
  Result finish(pid_t child) const {
    int status = 0;
    rusage used{};
    ::wait4(child, &status, 0, &used);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(path.string() + ".out"),
            read(path.string() + ".err"), static_cast<double>(used.ru_maxrss) / 1024};
  }
  Result run(const std::vector<std::string>& command, const std::string& input = "") const {
    return finish(start(command, input));
  }

  void write(const std::string& name, const std::string& content) const { std::ofstream(path / name) << content; }
  bool empty() const { return fs::is_empty(path); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

inline nlohmann::json last_line(const std::string& out) {
  const std::size_t end = out.find_last_not_of('\n');
  const std::size_t begin = out.rfind('\n', end);
  return nlohmann::json::parse(out.substr(begin == std::string::npos ? 0 : begin + 1, end - begin));
}

// The command fails with one line that names the culprit, prints nothing on standard output, and creates no file.
inline void check_refused(const Folder& folder, const std::vector<std::string>& command, int code,
                          const std::string& part) {
  const std::size_t files = folder.files();
  const Result r = folder.run(command);
  std::string title;
  for (const std::string& word : command) title += word.substr(0, 40) + " ";
  BOOST_CHECK_MESSAGE(r.code == code, title << "gave " << r.code << ": " << r.err);
  BOOST_CHECK_MESSAGE(r.err.find(part) != std::string::npos, "'" << part << "' is not in: " << r.err);
  BOOST_CHECK_MESSAGE(std::count(r.err.begin(), r.err.end(), '\n') == 1 && r.err.size() < 400,
                      "not one line: " << r.err);
  BOOST_CHECK_MESSAGE(r.out.empty(), title << "printed " << r.out);
  BOOST_CHECK_MESSAGE(folder.files() == files, title << "made a file");
}

}  // namespace test
