// The rules of the house that a compiler does not check.
#define BOOST_TEST_MODULE house
#include <boost/test/unit_test.hpp>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

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

namespace {

// In `T x{{name, ...}, f()}`, from "{{" on: does a call follow the inner braces?
bool calls_after_inner_braces(std::string_view text) {
  int depth = 0;
  bool is_past_inner = false;
  for (std::size_t i = 0; i < text.size() && text[i] != ';'; ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 1) is_past_inner = true;
    if (text[i] == '}' && depth == 0) return false;
    if (text[i] == '(' && is_past_inner && depth == 1) return true;
  }
  return false;
}

}  // namespace

// g++ 12 destroys the members of a nested braced aggregate twice when a later initialiser throws: what follows the
// inner braces is computed before.
BOOST_AUTO_TEST_CASE(no_call_follows_a_nested_aggregate) {
  BOOST_CHECK(calls_after_inner_braces("{{name, text(), {}, {}}, plain_integer(x), plain_integer(y)};"));
  BOOST_CHECK(!calls_after_inner_braces("{{name, text()}, begin, end};"));
  each_source([](const fs::path& path, int) {
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    for (std::size_t at = 0; (at = text.find("{{", at)) != std::string::npos; ++at) {
      const bool is_named = at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_');
      BOOST_CHECK_MESSAGE(!is_named || !calls_after_inner_braces(std::string_view(text).substr(at)),
                          path << ": " << text.substr(at, 80));
    }
  });
}

// Each C++ block of the README and of docs/ stands, compiled, in a test or a small program.
BOOST_AUTO_TEST_CASE(documents_show_code_that_runs) {
  const auto words = [](const std::string& text) {  // spacing and line breaks aside
    return std::regex_replace(text, std::regex("\\s+"), "");
  };
  const auto read = [](const fs::path& path) {
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const fs::path root(SEPPO_SOURCE_DIR);
  std::vector<fs::path> documents{root / "README.md"};
  std::string compiled = words(read(root / "tests/house/test_readme.cpp") + read(root / "tests/house/test_docs.cpp"));
  for (const auto& entry : fs::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") documents.push_back(entry.path());
  for (const auto& entry : fs::directory_iterator(root / "examples/small")) compiled += words(read(entry.path()));
  int blocks = 0;
  constexpr std::string_view kStart = "```cpp\n";
  for (const fs::path& path : documents) {
    const std::string text = read(path);
    for (std::size_t at = 0; (at = text.find(kStart, at)) != std::string::npos; ++blocks) {
      at += kStart.size();
      const std::string block = text.substr(at, text.find("```", at) - at);
      BOOST_CHECK_MESSAGE(compiled.find(words(block)) != std::string::npos, path << " has code that no one runs:\n"
                                                                                 << block);
    }
  }
  BOOST_CHECK_GE(blocks, 20);
}

// Links between documents lead to files.
BOOST_AUTO_TEST_CASE(links_lead_somewhere) {
  const fs::path root(SEPPO_SOURCE_DIR);
  std::vector<fs::path> documents{root / "README.md", root / "CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") documents.push_back(entry.path());
  const std::regex link(R"(\]\(([^)#:]+)\))");
  int links = 0;
  for (const fs::path& path : documents) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match, ++links)
      BOOST_CHECK_MESSAGE(fs::exists(path.parent_path() / (*match)[1].str()), path << " links to " << (*match)[1]);
  }
  BOOST_CHECK_GE(links, 10);
}

BOOST_AUTO_TEST_CASE(only_one_wing_knows_blas_and_amx) {
  const std::regex amx("amx", std::regex::icase);
  each_source([&](const fs::path& path, int) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (path.filename() != "openblas.cpp") BOOST_CHECK_MESSAGE(text.find("cblas") == std::string::npos, path);
    if (path.parent_path().filename() != "blas") BOOST_CHECK_MESSAGE(!std::regex_search(text, amx), path);
  });
}
