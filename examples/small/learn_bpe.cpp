// Learns a tokenizer, byte-level BPE, from a text.
//
//   learn_bpe TEXT DIR 4096      from the lines of a file into a folder, which `llm train --tokenizer DIR` reads
//
// Without arguments it learns from a small text and shows how its tokenizer cuts another one.
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/text/learn_bpe.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

using namespace seppo;
namespace fs = std::filesystem;

void write(const BpeLearner& learner, int tokens, const fs::path& folder) {
  const BpeOptions options{.tokens = tokens};
  const nlohmann::json names{{"bos_token", options.special}, {"eos_token", options.special}};
  fs::create_directories(folder);
  write_text(folder / "tokenizer.json", learner.learn(options).dump(1));
  write_text(folder / "tokenizer_config.json", names.dump(1));
}

void learn_from_file(const fs::path& text, const fs::path& folder, int tokens) {
  BpeLearner learner;
  TextReader(text).for_each_line([&](std::string_view line) { learner.add(line); });
  write(learner, tokens, folder);
  std::cout << read_tokenizer(folder).size() << " tokens in " << folder.string() << "\n";
}

// Does the tokenizer of a small text know the words of another one?
bool learns_words() {
  const std::string text = "How much wood would a woodchuck chuck if a woodchuck could chuck wood?";
  BpeLearner learner;
  for (int i = 0; i < 2; ++i) learner.add(text);
  const fs::path folder = fs::temp_directory_path() / ("seppo-learn-bpe-" + std::to_string(::getpid()));
  write(learner, /*tokens=*/300, folder);
  const Tokenizer tokenizer = read_tokenizer(folder);
  fs::remove_all(folder);
  const std::string other = "much wood would chuck a could?";
  const std::vector<int> tokens = tokenizer.encode(other);
  for (const int token : tokens) std::cout << '[' << tokenizer.decode(std::vector{token}) << ']';
  std::cout << "\n";
  return tokenizer.decode(tokens) == other && 2 * tokens.size() < other.size();
}

int main(int argc, char** argv) try {
  if (argc == 4) {
    learn_from_file(argv[1], argv[2], std::atoi(argv[3]));
    return 0;
  }
  return learns_words() ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
