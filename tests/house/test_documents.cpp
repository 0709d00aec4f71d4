// What documents promise: words of the field, code that runs, tests and files that exist, links that lead somewhere.
// needs: not_in_valgrind: single
#include "house/house.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace house;

// Comments and documents use the terms of the field: L1 and L2, AMX, freed memory.
BOOST_AUTO_TEST_CASE(words_are_those_of_the_field) {
  std::vector<fs::path> files = documents();
  for (const fs::path& path : files_of({"autograd", "nn", "models", "examples", "tests", "cmake", "script"},
                                       {".h", ".cpp", ".py", ".txt", ".cmake", ""}))
    if (path.filename() != "test_documents.cpp") files.push_back(path);
  for (const fs::path& path : files) {
    std::string text;  // on one line, since a phrase may wrap
    for (const std::string& line : lines_of(read(path)))
      text += " " + line.substr(std::min(line.size(), line.find_first_not_of(" /#*")));
    for (const char* word : {"first-level cache", "second-level cache", "matrix unit", "laid bare"})
      BOOST_CHECK_MESSAGE(text.find(word) == std::string::npos, path << " says '" << word << "'");
  }
}

// Each C++ block of the README and of docs/ appears in a test or a small program, where it is compiled. The first one
// of a page says what to include.
BOOST_AUTO_TEST_CASE(documents_show_code_that_runs) {
  const auto words = [](const std::string& text) {  // spacing and line breaks aside
    return std::regex_replace(text, std::regex("\\s+"), "");
  };
  std::string compiled = words(read(kRoot / "tests/house/test_docs.cpp"));
  for (const fs::path& path : files_of({"examples/small"}, {".cpp"})) compiled += words(read(path));
  int blocks = 0;
  constexpr std::string_view kStart = "```cpp\n";
  for (const fs::path& path : documents()) {
    const std::string text = read(path);
    for (std::size_t at = 0; (at = text.find(kStart, at)) != std::string::npos; ++blocks) {
      at += kStart.size();
      const std::string block = text.substr(at, text.find("```", at) - at);
      const bool is_first = at == text.find(kStart) + kStart.size();
      BOOST_CHECK_MESSAGE(!is_first || (block.starts_with("#include <seppo/seppo.h>\n") &&
                                        block.find("\nusing namespace seppo;\n") != std::string::npos),
                          path << " begins without includes:\n"
                               << block);
      BOOST_CHECK_MESSAGE(compiled.find(words(block)) != std::string::npos, path << " has code that no one runs:\n"
                                                                                 << block);
    }
  }
  BOOST_CHECK_GE(blocks, 20);
}

namespace {

// The indented lines of the comment that a file begins with.
std::string code_at_head(const std::string& text) {
  constexpr std::string_view kComment = "//", kIndented = "//   ";
  std::string code;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with(kComment)) break;
    if (line.starts_with(kIndented)) code += line.substr(kIndented.size()) + "\n";
  }
  return code;
}

std::string without_blanks(const std::string& text) { return std::regex_replace(text, std::regex("\\s+"), ""); }

}  // namespace

// Each module's header begins with an example, which a test compiles and runs; so does that of optimisers.
BOOST_AUTO_TEST_CASE(modules_begin_with_examples_that_run) {
  const std::string compiled = without_blanks(read(kRoot / "tests/house/test_module_heads.cpp")) +
                               without_blanks(read(kRoot / "tests/consumer/momentum.h"));
  std::vector<fs::path> headers = files_of({"nn/modules"}, {".h"});
  BOOST_CHECK_GE(headers.size(), 9u);
  headers.push_back(kRoot / "nn/optim/optimiser.h");
  for (const fs::path& path : headers) {
    const std::string code = code_at_head(read(path));
    BOOST_CHECK_MESSAGE(!code.empty(), path << " begins without an example");
    BOOST_CHECK_MESSAGE(compiled.find(without_blanks(code)) != std::string::npos, path
                                                                                      << " has code that no one runs:\n"
                                                                                      << code);
  }
}

// The index leads to every page and every small program.
BOOST_AUTO_TEST_CASE(the_index_is_complete) {
  const std::string index = read(kRoot / "docs/README.md");
  const std::string programs = read(kRoot / "docs/small-programs.md");
  for (const fs::path& path : documents()) {
    const bool is_page = path.parent_path() == kRoot / "docs" && path.filename() != "README.md";
    const std::string name = path.filename().string();
    BOOST_CHECK_MESSAGE(!is_page || index.find("](" + name) != std::string::npos, "docs/README.md omits " << name);
  }
  for (const fs::path& path : files_of({"examples/small"}, {".cpp"})) {
    const std::string name = "(../examples/small/" + path.filename().string() + ")";
    BOOST_CHECK_MESSAGE(programs.find(name) != std::string::npos, "docs/small-programs.md omits " << path);
  }
}

// Headers that the index names are there.
BOOST_AUTO_TEST_CASE(the_index_names_headers_that_exist) {
  const std::regex header(R"(`((?:autograd|nn|models)/[a-z0-9_/.]*)`)");
  const std::string index = read(kRoot / "docs/README.md");
  int headers = 0;
  for (std::sregex_iterator match(index.begin(), index.end(), header), end; match != end; ++match, ++headers)
    BOOST_CHECK_MESSAGE(fs::exists(kRoot / (*match)[1].str()), "docs/README.md names " << (*match)[1]);
  BOOST_CHECK_GE(headers, 30);
}

// Each promise in SECURITY.md names its proof: test cases, tests, or scripts with a mode they accept.
BOOST_AUTO_TEST_CASE(promises_name_tests_that_exist) {
  std::string tests;
  for (const fs::path& path : files_of({"tests"}, {".cpp"})) tests += read(path);
  const auto is_there = [&](const std::string& name) {
    const std::string file = name.substr(0, name.find(' ')), mode = name.substr(std::min(name.size(), file.size() + 1));
    if (file.find('/') == std::string::npos)
      return std::regex_search(tests, std::regex("_TEST_CASE\\(" + file + "[,)]"));
    return fs::is_regular_file(kRoot / file) && read(kRoot / file).find(mode) != std::string::npos;
  };
  BOOST_CHECK(is_there("promises_name_tests_that_exist") && is_there("script/test asan"));
  BOOST_CHECK(!is_there("promises_name_tests") && !is_there("script/test never") && !is_there("tests/nowhere.cpp"));
  const std::regex row(R"(\| (.+) \| (.+) \|)"), quoted("`([^`]+)`");
  int promises = 0;
  for (const std::string& line : lines_of(read(kRoot / "SECURITY.md"))) {
    std::smatch match;
    if (!std::regex_match(line, match, row) || match[1] == "promise") continue;
    ++promises;
    const std::string names = match[2];
    int named = 0;
    for (std::sregex_iterator at(names.begin(), names.end(), quoted), end; at != end; ++at, ++named)
      BOOST_CHECK_MESSAGE(is_there((*at)[1]), "SECURITY.md: there is no " << (*at)[1]);
    BOOST_CHECK_MESSAGE(named > 0, "SECURITY.md: no test for: " << match[1]);
  }
  BOOST_CHECK_GE(promises, 15);
}

// What a script of the project reports with --check; nothing if all is well.
std::string faults_found_by(const char* script) {
  FILE* const pipe = popen(((kRoot / "script" / script).string() + " --check").c_str(), "r");
  BOOST_REQUIRE(pipe);
  std::string faults;
  for (int c; (c = std::fgetc(pipe)) != EOF;) faults += static_cast<char>(c);
  BOOST_CHECK_EQUAL(pclose(pipe), 0);
  return faults;
}

// Promises as found by script/promises, whose own rules test_promises.cpp checks.
BOOST_AUTO_TEST_CASE(promises_of_headers_name_tests) {
  const std::string faults = faults_found_by("promises");
  BOOST_CHECK_MESSAGE(faults.empty(), faults << "tests/promises/ names tests for each sentence; look at them again");
}

// Sizes as found by script/sizes, and options by script/neutral.
BOOST_AUTO_TEST_CASE(sizes_and_options_are_tried) {
  const std::string sizes = faults_found_by("sizes"), options = faults_found_by("neutral");
  BOOST_CHECK_MESSAGE(sizes.empty(), sizes << "tests/sizes/ names tests for each size; look at them again");
  BOOST_CHECK_MESSAGE(options.empty(), options << "give them a value in a test, or say in tests/neutral.txt why not");
}

BOOST_AUTO_TEST_CASE(figures_are_as_drawn_and_link_to_code) {
  const std::string faults = faults_found_by("figures");
  BOOST_CHECK_MESSAGE(faults.empty(), faults << "script/figures draws them");
}

// The pages for those who carry on name files and folders that exist.
BOOST_AUTO_TEST_CASE(the_pages_on_the_house_know_it) {
  const std::regex path(R"(`((?:autograd|nn|models|examples|tests|docs|script)/[a-z0-9_/.-]*)`)");
  int paths = 0;
  for (const char* page : {"docs/design.md", "docs/add.md", "docs/read-the-engine.md"}) {
    const std::string text = read(kRoot / page);
    for (std::sregex_iterator match(text.begin(), text.end(), path), end; match != end; ++match, ++paths)
      BOOST_CHECK_MESSAGE(fs::exists(kRoot / (*match)[1].str()), page << " names " << (*match)[1]);
  }
  BOOST_CHECK_GE(paths, 40);
}

namespace {

// What GitHub calls a heading's place: lower case, without punctuation, with dashes for blanks.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find_first_not_of("# ")))
    if (c == ' ' || c == '-')
      anchor += '-';
    else if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return anchor;
}

std::set<std::string> anchors_of(const fs::path& page) {
  std::set<std::string> anchors{""};
  for (const std::string& line : lines_of(read(page)))
    if (line.starts_with('#')) anchors.insert(anchor_of(line));
  return anchors;
}

}  // namespace

// Links between documents lead to existing files, and to headings that these have.
BOOST_AUTO_TEST_CASE(links_lead_somewhere) {
  BOOST_CHECK_EQUAL(anchor_of("## A `loop` of your own, in C++"), "a-loop-of-your-own-in-c");
  const std::regex link(R"(\]\(([^)#: ]*)#?([^): ]*)\))");
  int links = 0;
  for (const fs::path& path : documents()) {
    const std::string text = read(path);
    for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match, ++links) {
      const std::string file = (*match)[1], anchor = (*match)[2];
      const fs::path target = file.empty() ? path : path.parent_path() / file;
      BOOST_CHECK_MESSAGE(fs::exists(target), path << " links to " << file);
      if (target.extension() == ".md")
        BOOST_CHECK_MESSAGE(anchors_of(target).contains(anchor), path << " links to " << file << "#" << anchor);
    }
  }
  BOOST_CHECK_GE(links, 100);
}
