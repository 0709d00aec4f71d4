// Encodes texts with a tokenizer, for a comparison with its own library.
//
//   check_tokenizer FOLDER < texts      texts are lines, each a JSON string; for each, its ids and what they decode to
//   check_tokenizer FOLDER FILE         encodes the file's lines and prints seconds, lines and tokens
#include <seppo/nn/text/tokenizer_folder.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using nlohmann::json;
using seppo::Tokenizer;

namespace {

// The program's own lines of JSON: texts have no special tokens, as SpecialText::tokens reads them.
void answer(const Tokenizer& tokenizer, std::istream& texts, std::ostream& answers) {
  for (std::string line; std::getline(texts, line);) {
    const std::vector<int> ids = tokenizer.encode(json::parse(line).get<std::string>(), seppo::SpecialText::tokens);
    const json answer{{"ids", ids}, {"text", tokenizer.decode(ids)}};
    answers << answer.dump(-1, ' ', true, json::error_handler_t::replace) << '\n';
  }
}

void time(const Tokenizer& tokenizer, const char* path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  const auto start = std::chrono::steady_clock::now();
  std::size_t tokens = 0;
  for (const std::string& line : lines) tokens += tokenizer.encode(line, seppo::SpecialText::tokens).size();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::printf("%.3f %zu %zu\n", taken.count(), lines.size(), tokens);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fputs("usage: check_tokenizer FOLDER [FILE]\n", stderr);
    return 2;
  }
  try {
    const Tokenizer tokenizer = seppo::read_tokenizer(argv[1]);
    if (argc == 3)
      time(tokenizer, argv[2]);
    else
      answer(tokenizer, std::cin, std::cout);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "check_tokenizer: %s\n", e.what());
    return 1;
  }
}
