// Finds a program beside this one, and executes it.
#include "inspect/front_door.h"

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace inspect {
namespace {

namespace fs = std::filesystem;

constexpr Listed kPrograms[] = {
    {"addsub", "two-digit addition and subtraction: EECS 498 of Michigan, and Fudan's lab"},
    {"reverse", "reversing 16 digits, by an encoder or an encoder-decoder: UvA's tutorial 6"},
    {"odd_one", "the odd one out in a set: UvA's tutorial 6"},
    {"count", "one answer about a whole sequence: counting, the largest, the most frequent"},
    {"translate", "translation: numbers, Dive into Deep Learning's lesson, Multi30k, your own texts"},
    {"charlm", "a language model of characters: nanoGPT's tiny Shakespeare"},
    {"llm", "language models of other people: write, score, train"},
    {"attention_lab", "what attention costs"},
    {"blocks_lab", "what each part of a block is for"},
    {"positions", "positional encodings as pictures"},
    {"ablations", "a Transformer without one of its parts"},
    {"homework", "exercises of the courses, to be written, and their checks"},
    {"race", "a recurrent network, convolutions and a Transformer at one task"},
};

// Where this program was started from, as it was typed, so that what the other suggests is as short; then where it is.
std::vector<fs::path> folders(const std::string& argv0) {
  std::vector<fs::path> folders;
  if (argv0.find('/') != std::string::npos) folders.push_back(fs::path(argv0).parent_path());
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored);
  if (!own.empty()) folders.push_back(own.parent_path());
  return folders;
}

}  // namespace

std::span<const Listed> listed_programs() { return kPrograms; }

void become_program(char** argv) {
  if (!argv[0] || !argv[1]) return;
  char* const typed = argv[1];
  const std::string name = typed;
  const bool is_listed = std::ranges::any_of(kPrograms, [&](const Listed& p) { return p.name == name; });
  if (!is_listed) return;
  for (const fs::path& folder : folders(argv[0]))
    for (const std::string& file : {name, "seppo-" + name}) {
      std::string path = (folder / file).string();
      argv[1] = path.data();
      ::execv(path.c_str(), argv + 1);
    }
  argv[1] = typed;
}

void become(const std::string& argv0, const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{argv0, program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  become_program(argv.data());
}

}  // namespace inspect
