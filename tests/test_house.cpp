// The rules of the house that a compiler does not check.
#define BOOST_TEST_MODULE house
#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>

namespace fs = std::filesystem;

namespace {

const std::map<std::string, int> kRooms{{"autograd", 0}, {"nn", 1}, {"models", 2}, {"examples", 3}};

template <class F>
void each_source(const F& f) {
  for (const auto& [room, rank] : kRooms)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SEPPO_SOURCE_DIR) / room))
      if (entry.path().extension() == ".h" || entry.path().extension() == ".cpp") f(entry.path(), rank);
}

}  // namespace

// autograd <- nn <- models <- examples, never backwards.
BOOST_AUTO_TEST_CASE(includes_point_one_way) {
  const std::regex include(R"(^\s*#\s*include\s*[<"](?:seppo/)?(autograd|nn|models|examples)/)");
  int seen = 0;
  each_source([&](const fs::path& path, int rank) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      ++seen;
      BOOST_CHECK_MESSAGE(kRooms.at(match[1]) <= rank, path << ": " << line);
    }
  });
  BOOST_CHECK_GT(seen, 50);
}

BOOST_AUTO_TEST_CASE(files_are_short_and_explain_themselves) {
  each_source([](const fs::path& path, int) {
    std::ifstream file(path);
    std::string line, first;
    int lines = 0;
    for (; std::getline(file, line); ++lines)
      if (lines == 0) first = line;
    BOOST_CHECK_MESSAGE(lines <= 400, path << " has " << lines << " lines");
    if (path.extension() == ".h")
      BOOST_CHECK_MESSAGE(first.starts_with("//"), path << " does not begin with what it is for");
  });
}

// Each C++ block of the README stands, compiled, between marks in test_readme.cpp.
BOOST_AUTO_TEST_CASE(the_readme_shows_code_that_runs) {
  const auto words = [](const std::string& text) {  // spacing aside
    return std::regex_replace(text, std::regex("\\s+"), " ");
  };
  const auto read = [](const char* name) {
    std::ifstream file(fs::path(SEPPO_SOURCE_DIR) / name);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string readme = read("README.md"), compiled = words(read("tests/test_readme.cpp"));
  int blocks = 0;
  constexpr std::string_view kStart = "```cpp\n";
  for (std::size_t at = 0; (at = readme.find(kStart, at)) != std::string::npos; ++blocks) {
    at += kStart.size();
    const std::string block = readme.substr(at, readme.find("```", at) - at);
    BOOST_CHECK_MESSAGE(compiled.find(words(block)) != std::string::npos, "not in test_readme.cpp:\n" << block);
  }
  BOOST_CHECK_GE(blocks, 4);
}

BOOST_AUTO_TEST_CASE(only_blas_cpp_knows_blas) {
  each_source([](const fs::path& path, int) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (path.filename() != "blas.cpp") BOOST_CHECK_MESSAGE(text.find("cblas") == std::string::npos, path);
  });
}
