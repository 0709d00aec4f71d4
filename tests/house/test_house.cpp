// House rules that a compiler does not check.
// needs: not_in_valgrind: single
#include "house/house.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

using namespace house;

namespace {

// Bottom-up: a file includes only files from its own folder and from folders listed before it. ops.h belongs to ops/,
// and seppo.h, which includes everything, stands above them all.
const std::vector<std::string> kFolders{"autograd/core",    "autograd/blas",
                                        "autograd/kernels", "autograd/ops",
                                        "autograd/tools",   "nn",
                                        "nn/modules",       "nn/optim",
                                        "nn/data",          "nn/io",
                                        "nn/text",          "nn/train",
                                        "nn/run",           "models",
                                        "models/decoding",  "models/hugging_face",
                                        "models/onnx",      "models/gguf"};

std::string folder_of(const fs::path& file) {
  if (file.filename() == "seppo.h") return kFolders.back();
  fs::path parent = file.lexically_relative(kRoot).parent_path();
  if (parent.filename() == "posix" || parent.filename() == "windows") parent = parent.parent_path();  // one of two
  const std::string folder = parent;
  if (folder == "autograd/kernels/reference") return "autograd/kernels";
  if (folder == "models/hugging_face/families") return "models/hugging_face";
  if (folder == "nn/text/jinja") return "nn/text";
  return folder == "autograd" ? "autograd/ops" : folder;
}

const std::vector<fs::path> kLibrary = files_of({"autograd", "nn", "models"}, {".h", ".cpp"});
const std::vector<fs::path> kSources = files_of({"autograd", "nn", "models", "examples", "tests"}, {".h", ".cpp"});

// The text without comments, literals and preprocessor lines.
std::string code_of(const std::string& text) {
  std::string code;
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size(); i = end) {
    const std::string_view rest = std::string_view(text).substr(i);
    const auto until = [&](std::string_view last, std::size_t from) { return text.find(last, i + from) + last.size(); };
    if (rest.starts_with("//")) {
      end = until("\n", 0) - 1;
    } else if (rest.starts_with("/*")) {
      end = until("*/", 2);
    } else if (rest.starts_with("R\"")) {
      end = until(")" + text.substr(i + 2, text.find('(', i) - i - 2) + "\"", 2);
    } else if (rest[0] == '"' || (rest[0] == '\'' && !std::isdigit(static_cast<unsigned char>(text[i - 1])))) {
      for (end = i + 1; text[end] != rest[0]; ++end) end += text[end] == '\\';
      ++end;
    } else if (rest[0] == '#') {
      for (end = until("\n", 0); text[end - 2] == '\\';) end = text.find('\n', end) + 1;
    } else {
      code += rest[0];
      end = i + 1;
    }
  }
  return code;
}

// The code at exactly this brace depth; 0 is outside of all namespaces. Deeper blocks are left empty.
std::string at_depth(const std::string& code, int depth) {
  std::string text;
  int open = 0;
  for (const char c : code) {
    if (c == '}') --open;
    if (open == depth) text += c;
    if (c == '{') ++open;
  }
  return text;
}

}  // namespace

// core <- blas <- kernels <- ops <- tools <- nn <- models; includes in the library name existing files.
BOOST_AUTO_TEST_CASE(the_library_includes_point_one_way) {
  const std::regex include(R"(^\s*#\s*include\s*([<"])([^">]+))");
  const auto rank = [](const fs::path& file) {
    return std::ranges::find(kFolders, folder_of(file)) - kFolders.begin();
  };
  int seen = 0;
  for (const fs::path& path : kLibrary) {
    BOOST_CHECK_MESSAGE(rank(path) < std::ssize(kFolders), path << " is in no wing");
    for (const std::string& line : lines_of(read(path))) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string name = match[2];
      if (match[1] == "<") {
        BOOST_CHECK_MESSAGE(!std::regex_search(name, std::regex("^(seppo|fmt|boost|Random123)/")),
                            path << ": " << line);
        continue;
      }
      ++seen;
      const fs::path target = (path.parent_path() / name).lexically_normal();
      BOOST_CHECK_MESSAGE(fs::exists(target), path << " includes what is not there: " << line);
      BOOST_CHECK_MESSAGE(rank(target) <= rank(path), path << ": " << line);
    }
  }
  BOOST_CHECK_GT(seen, 100);
}

// Programs share only examples/app and the library.
BOOST_AUTO_TEST_CASE(programs_do_not_include_each_other) {
  const std::regex include(R"(^\s*#\s*include\s*"(\w+)/)");
  for (const fs::path& path : files_of({"examples"}, {".h", ".cpp"}))
    for (const std::string& line : lines_of(read(path))) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string own = path.parent_path().filename();
      BOOST_CHECK_MESSAGE(match[1] == own || (match[1] == "app" && own != "app"), path << ": " << line);
    }
}

BOOST_AUTO_TEST_CASE(files_are_short_and_explain_themselves) {
  for (const fs::path& path : kSources) {
    const auto lines = lines_of(read(path));
    BOOST_CHECK_MESSAGE(lines.size() <= 400, path << " has " << lines.size() << " lines");
    BOOST_CHECK_MESSAGE(!lines.empty() && lines[0].starts_with("// "), path << " does not begin with what it is for");
  }
  for (const fs::path& path : files_of({"tests"}, {".py", ""})) {
    const auto lines = lines_of(read(path));
    BOOST_CHECK_MESSAGE(lines.size() <= 400, path << " has " << lines.size() << " lines");
  }
  BOOST_CHECK_LE(lines_of(read(kRoot / "README.md")).size(), 165u);
  BOOST_CHECK_LE(lines_of(read(kRoot / "docs/performance.md")).size(), 100u);
}

// Small programs are meant to be copied one by one: short, using only public headers, and listed in the documents.
BOOST_AUTO_TEST_CASE(small_programs_stand_alone) {
  const std::string listed = read(kRoot / "docs/small-programs.md");
  for (const fs::path& path : files_of({"examples/small"}, {".h", ".cpp"})) {
    const std::string text = read(path), name = path.stem();
    BOOST_CHECK_MESSAGE(lines_of(text).size() < 130, path << " has " << lines_of(text).size() << " lines");
    BOOST_CHECK_MESSAGE(text.find("#include \"") == std::string::npos, path << " includes what a copy would lack");
    BOOST_CHECK_MESSAGE(listed.find("[`" + name + "`]") != std::string::npos, "docs/small-programs.md lacks " << name);
  }
}

// Both precisions link into one program, so every name must say which precision it belongs to.
BOOST_AUTO_TEST_CASE(headers_declare_all_names_in_the_inline_namespace) {
  const std::regex outermost(R"(\s*((HWY_(BEFORE|AFTER)_NAMESPACE\(\);|namespace seppo \{\})\s*)*)"),
      within(R"(\s*(inline namespace SEPPO_ABI \{\}\s*)*)");
  for (const fs::path& path : kLibrary)
    if (path.extension() == ".h") {
      const std::string code = code_of(read(path)), outside = at_depth(code, 0), between = at_depth(code, 1);
      BOOST_CHECK_MESSAGE(std::regex_match(outside, outermost), path << " has outside of the namespace: " << outside);
      BOOST_CHECK_MESSAGE(std::regex_match(between, within), path << " has in the outer namespace: " << between);
    }
}

// A type that a header defines at namespace scope is defined only once in the library.
BOOST_AUTO_TEST_CASE(a_type_name_means_one_type) {
  const std::regex definition(R"((?:struct|class)\s+(\w+)\s*(?:final\s*)?(?::(?!:)[^;{}()]*)?\{)");
  std::map<std::string, std::vector<std::string>> places;
  std::map<std::string, bool> is_public;
  for (const fs::path& path : kLibrary) {
    const bool is_header = path.extension() == ".h";
    const std::string code = is_header ? at_depth(code_of(read(path)), 2) : code_of(read(path));
    for (std::sregex_iterator match(code.begin(), code.end(), definition), end; match != end; ++match) {
      places[(*match)[1]].push_back(path.lexically_relative(kRoot));
      is_public[(*match)[1]] |= is_header;
    }
  }
  BOOST_CHECK_GT(places.size(), 50u);
  for (const auto& [name, files] : places)
    BOOST_CHECK_MESSAGE(files.size() == 1 || !is_public[name],
                        name << " is defined in " << files[0] << " and in " << files[1]);
}

// The last line that script/test prints.
BOOST_AUTO_TEST_CASE(skipped_cases_are_neither_passed_nor_failed) {
  const auto test = [](const std::string& command, const std::string& output, bool passes) {
    return "1/9 Testing: x\n1/9 Test: x\nCommand: " + command + "\n" + output + "Test " +
           (passes ? "Passed" : "Failed") + ".\n\"x\" time elapsed: 00:00:00\n";
  };
  const auto count = [&](const std::string& log) {
    const fs::path file = fs::temp_directory_path() / ("seppo-count-" + std::to_string(std::rand()));
    std::ofstream(file) << log;
    FILE* pipe = popen(((kRoot / "script/count").string() + " " + file.string()).c_str(), "r");
    std::array<char, 200> line{};
    BOOST_REQUIRE(pipe && fgets(line.data(), line.size(), pipe));
    fs::remove(file);
    return std::string(line.data()) + (pclose(pipe) == 0 ? "good" : "bad");
  };
  const std::string all = "  3 test cases out of 3 passed\n", one = "  1 test case out of 1 passed\n";
  BOOST_CHECK_EQUAL(count(test("t", all, true)), "3 passed, 0 failed, 0 skipped\ngood");
  BOOST_CHECK_EQUAL(count(test("t", "skipped: why\n" + all, true)), "2 passed, 0 failed, 1 skipped\ngood");
  BOOST_CHECK_EQUAL(count(test("t", "skipped: why\n" + one, true)), "0 passed, 0 failed, 1 skipped\nbad");
  BOOST_CHECK_EQUAL(count(test("t", "  1 test case out of 3 passed\n  2 test cases out of 3 failed\n", false)),
                    "1 passed, 2 failed, 0 skipped\nbad");
  BOOST_CHECK_EQUAL(count(test("t", "  3 test cases out of 3 failed\n", false)), "0 passed, 3 failed, 0 skipped\nbad");
  BOOST_CHECK_EQUAL(count(test("t", all, false)), "3 passed, 1 failed, 0 skipped\nbad");  // a leak, after the report
  BOOST_CHECK_EQUAL(count(test("t", "crash\n", false)), "0 passed, 1 failed, 0 skipped\nbad");
  const std::string part = "  1 test case out of 3 passed\n  2 test cases out of 3 skipped\n";
  BOOST_CHECK_EQUAL(count(test("t", part, true)), "1 passed, 0 failed, 2 skipped\ngood");
  BOOST_CHECK_EQUAL(count(test("t --run_test=a", part, true)), "1 passed, 0 failed, 0 skipped\ngood");
  // Scripts, and programs that ctest did not find, which it reports as passed.
  const std::string script = test("s", "", true), skip = test("s", "skipped: a\nskipped: b\n", true);
  BOOST_CHECK_EQUAL(count(script + skip), "1 passed, 0 failed, 1 skipped\ngood");
  BOOST_CHECK_EQUAL(count(script + test("s", "skipped: a\n", false)), "1 passed, 1 failed, 0 skipped\nbad");
  BOOST_CHECK_EQUAL(count(script + test("\"\"", "", true)), "1 passed, 1 failed, 0 skipped\nbad");
  BOOST_CHECK_EQUAL(count(""), "0 passed, 0 failed, 0 skipped\nbad");
}

BOOST_AUTO_TEST_CASE(what_one_build_alone_has_is_named_by_a_test) {
  const fs::path build = fs::path(test::programs_folder()).parent_path();
  FILE* pipe = popen(((kRoot / "tests/house/one_build").string() + " " + build.string()).c_str(), "r");
  BOOST_REQUIRE(pipe);
  std::string text;
  std::array<char, 200> piece{};
  while (fgets(piece.data(), piece.size(), pipe)) text += piece.data();
  BOOST_CHECK_MESSAGE(pclose(pipe) == 0, text);
}

namespace {

// In `T x{{name, ...}, f()}`, starting at "{{": does a call follow the inner braces?
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

// g++ 12 destroys the members of a nested braced aggregate twice if a later initialiser throws, so anything that can
// throw must be computed before the aggregate.
BOOST_AUTO_TEST_CASE(no_call_follows_a_nested_aggregate) {
  BOOST_CHECK(calls_after_inner_braces("{{name, text(), {}, {}}, plain_integer(x), plain_integer(y)};"));
  BOOST_CHECK(!calls_after_inner_braces("{{name, text()}, begin, end};"));
  for (const fs::path& path : files_of({"autograd", "nn", "models", "examples"}, {".h", ".cpp"})) {
    std::string text = read(path);
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    for (std::size_t at = 0; (at = text.find("{{", at)) != std::string::npos; ++at) {
      const bool is_named = at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_');
      BOOST_CHECK_MESSAGE(!is_named || !calls_after_inner_braces(std::string_view(text).substr(at)),
                          path << ": " << text.substr(at, 80));
    }
  }
}

// Each engine is known to one folder only: products, including AMX, belong to autograd/blas, pattern matching to the
// tokenizers.
BOOST_AUTO_TEST_CASE(only_one_folder_knows_an_engine) {
  const std::pair<std::string, std::regex> doors[] = {
      {"autograd/blas", std::regex("cblas|openblas_|amx", std::regex::icase)},
      {"nn/text", std::regex("oniguruma\\.h|onig_|utf8proc", std::regex::icase)}};
  for (const fs::path& path : files_of({"autograd", "nn", "models", "examples"}, {".h", ".cpp"})) {
    const std::string text = read(path);
    for (const auto& [folder, inside] : doors) {
      if (folder_of(path) == folder) continue;
      std::smatch match;
      const bool knows = std::regex_search(text, match, inside);
      BOOST_CHECK_MESSAGE(!knows, path << " says '" << match.str() << "'");
    }
  }
}
