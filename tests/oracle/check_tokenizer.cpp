// Encodes texts with a tokenizer, for a comparison with its own library.
//
//   check_tokenizer FOLDER < texts      texts are lines, each a JSON string; for each, its ids and what they decode to
//   check_tokenizer FOLDER FILE         encodes the file's lines and prints seconds, lines and tokens
//   check_tokenizer FOLDER FILE SIZE    learns a vocabulary of this size from the file's lines, writes it into the
//   folder
//                                       and prints seconds
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/text/learn_bpe.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using nlohmann::json;
using seppo::Tokenizer;

namespace {

// A line of JSON for each text, in which names of special tokens are these tokens, as for the package.
void answer(const Tokenizer& tokenizer, std::istream& texts, std::ostream& answers) {
  for (std::string line; std::getline(texts, line);) {
    const std::vector<int> ids = tokenizer.encode(json::parse(line).get<std::string>(), seppo::SpecialText::tokens);
    const json answer{{"ids", ids}, {"text", tokenizer.decode(ids)}};
    answers << answer.dump(-1, ' ', true, json::error_handler_t::replace) << '\n';
  }
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<std::string> lines_of(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void time_encoding(const Tokenizer& tokenizer, const char* path) {
  const std::vector<std::string> lines = lines_of(path);
  const Clock::time_point start = Clock::now();
  std::size_t tokens = 0;
  for (const std::string& line : lines) tokens += tokenizer.encode(line, seppo::SpecialText::tokens).size();
  std::printf("%.3f %zu %zu\n", seconds_since(start), lines.size(), tokens);
}

void learn(const std::filesystem::path& folder, const char* path, int size) {
  const std::vector<std::string> lines = lines_of(path);
  const Clock::time_point start = Clock::now();
  seppo::BpeLearner learner;
  for (const std::string& line : lines) learner.add(line);
  const json document = learner.learn({.tokens = size});
  std::printf("%.3f\n", seconds_since(start));
  seppo::write_text(folder / "tokenizer.json", document.dump());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fputs("usage: check_tokenizer FOLDER [FILE [SIZE]]\n", stderr);
    return 2;
  }
  try {
    switch (argc) {
      case 2:
        answer(seppo::read_tokenizer(argv[1]), std::cin, std::cout);
        break;
      case 3:
        time_encoding(seppo::read_tokenizer(argv[1]), argv[2]);
        break;
      case 4:
        learn(argv[1], argv[2], std::stoi(argv[3]));
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "check_tokenizer: %s\n", e.what());
    return 1;
  }
}
