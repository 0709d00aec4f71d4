// Runs the programs as a user does, in a temporary folder of the test's own.
#pragma once

#include "support/json.h"
#include "support/memcheck.h"
#include "support/paths.h"

#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <sys/types.h>
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
using Words = std::vector<std::string>;

struct Result {
  int code;
  std::string out, err;
  double peak_mb = 0;  // peak resident memory; never below that of the process that started it
};

std::string read(const fs::path& path);
// A new file: where one is overwritten in place, some file systems wait for the disk.
void write(const fs::path& path, const std::string& content);

// Splits a command line without quotes into words.
Words words(const std::string& line);
// A command with more options.
Words with(Words words, const Words& more);

// Options for a character-level translator that memorises a few pairs in seconds.
inline const std::string kSmallTranslator =
    " --tokens characters --min-frequency 1 --d-model 32 --heads 4 --d-ff 64 --enc-layers 1 --dec-layers 1 --dropout 0"
    " --batch-size 8 --lr 0.005 --label-smoothing 0 ";

// A folder of this test's own in which the programs run.
struct Folder {
  fs::path path;
  explicit Folder(const std::string& name = "programs");
  ~Folder();

  // Starts the program; its output goes to files next to the folder.
  pid_t start(const Words& command, const std::string& input = "") const;
  Result finish(pid_t child) const;
  Result run(const Words& command, const std::string& input = "") const;

  void write(const std::string& name, const std::string& content) const;
  bool empty() const;
  std::size_t files() const;
};

// The command fails with one line that names the culprit, prints nothing on standard output, and creates no file.
void check_refused(const Folder& folder, const Words& command, int code, const std::string& part);

}  // namespace test
