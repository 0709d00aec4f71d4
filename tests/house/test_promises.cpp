// What script/promises recognises as a promise, and as its proof; what script/sizes and script/neutral find.
// needs: not_in_valgrind: single
#include "support/paths.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;

namespace {

const fs::path kSource(test::source_folder());

// A small library with one header of its own, a test, and a table.
struct Project {
  fs::path root = fs::temp_directory_path() / ("seppo-promises-" + std::to_string(::getpid()));

  Project() {
    for (const char* folder : {"cmake", "nn/io", "autograd/ops", "tests/promises", "tests/nn"})
      fs::create_directories(root / folder);
    fs::copy_file(kSource / "cmake/install.cmake", root / "cmake/install.cmake");
    write("tests/nn/test_x.cpp", "BOOST_AUTO_TEST_CASE(one) {}\nBOOST_DATA_TEST_CASE(two, data) {}\n");
  }
  ~Project() { fs::remove_all(root); }

  void write(const std::string& path, const std::string& text) const { std::ofstream(root / path) << text; }
  // The output of a script with --check.
  std::string faults(const std::string& script = "promises") const {
    FILE* const pipe =
        popen(((kSource / "script" / script).string() + " --check --root " + root.string()).c_str(), "r");
    BOOST_REQUIRE(pipe);
    std::string text;
    for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
    BOOST_CHECK_EQUAL(pclose(pipe) == 0, text.empty());
    return text;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_promise_needs_a_proof) {
  const Project p;
  p.write(
      "nn/io/a.h",
      "// It sums. Throws Error if x\n// is odd. Ends.\nint f();  // never A ... B; does\n          // the same\nint "
      "g();  // ok\n");
  p.write("nn/b-inl.h", "// Never.\n");            // SIMD code
  p.write("autograd/ops/inner.h", "// Never.\n");  // not installed
  const std::string odd = "nn/io/a.h\n  Throws Error if x is odd.\n    x/one\n",
                    same = "  never A ... B; does the same\n";
  const auto with = [&](const std::string& table) {
    p.write("tests/promises/nn.txt", table);
    return p.faults();
  };
  const std::string both = with("");
  BOOST_CHECK_MESSAGE(both.find(": Throws Error if x is odd.\n") != both.npos, both);
  BOOST_CHECK_MESSAGE(both.find(": never A ... B; does the same\n") != both.npos, both);
  BOOST_CHECK(both.find("Never") == both.npos);
  BOOST_CHECK_EQUAL(with(odd + same + "    x/two, tests/nn/test_x.cpp\n"), "");
  BOOST_CHECK_EQUAL(with("# words\n\n" + odd + same + "    none: it says nothing, at all\n"), "");
  BOOST_CHECK_EQUAL(with(odd + same), "nn/io/a.h: no test is named: never A ... B; does the same\n");
  BOOST_CHECK_EQUAL(with(odd + same + "    x/tw\n"), "nn/io/a.h: there is no x/tw: never A ... B; does the same\n");
  BOOST_CHECK_EQUAL(with(odd + same + "    y/two\n"), "nn/io/a.h: there is no y/two: never A ... B; does the same\n");
  BOOST_CHECK_EQUAL(with(odd + same + "    x/two\n  never\n    x/one\n"), "nn/io/a.h: says no longer: never\n");
  BOOST_CHECK(with(odd) ==
              "nn/io/a.h: tests are named 0 times, and it is said 1 times: never A ... B; does the same\n");
  BOOST_CHECK(with(odd + same + "    x/one\n" + same + "    x/one\n").find("named 2 times") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(each_size_needs_a_test) {
  const Project p;
  fs::create_directories(p.root / "tests/sizes");
  p.write("nn/io/a.cpp",
          "constexpr std::size_t kTile = 4, kPart = 2 * kTile;  // constexpr int kNot = 1;\n"
          "static constexpr double kHalf = 0.5;\n");
  const auto with = [&](const std::string& table) {
    p.write("tests/sizes/nn.txt", "nn/io/a.cpp\n" + table);
    return p.faults("sizes");
  };
  const std::string tile = "  kTile = 4\n    x/one\n", part = "  kPart = 2 * kTile\n";
  BOOST_CHECK_EQUAL(with(tile), "nn/io/a.cpp: no test is named for kPart = 2 * kTile\n");
  BOOST_CHECK_EQUAL(with(tile + part + "    none: it is not\n"), "");
  BOOST_CHECK_EQUAL(with(tile + part + "    x/two, x/three\n"), "nn/io/a.cpp: kPart: there is no x/three\n");
  BOOST_CHECK_EQUAL(with("  kTile = 5\n    x/one\n" + part + "    x/two\n"),
                    "nn/io/a.cpp: no test is named for kTile = 4\nnn/io/a.cpp: there is no kTile = 5\n");
}

BOOST_AUTO_TEST_CASE(each_option_needs_another_value) {
  const Project p;
  p.write("nn/io/a.h", "struct CutOptions {\n  int parts = 2;\n  bool is_open = false;  // x\n};\n");
  const auto with = [&](const std::string& test, const std::string& excuses) {
    p.write("tests/nn/test_x.cpp", test);
    p.write("tests/neutral.txt", excuses);
    return p.faults("neutral");
  };
  const std::string open = "CutOptions.is_open: no test gives it another value than false\n";
  BOOST_CHECK_EQUAL(with("cut({.parts = 3});", ""), open);
  BOOST_CHECK_EQUAL(with("cut({.parts = 3, .is_open = false});", ""), open);
  BOOST_CHECK_EQUAL(with("cut({.parts = 3, .is_open = true});", ""), "");
  BOOST_CHECK_EQUAL(with("options.parts = 3; run(\"--is-open\");", ""), "");
  BOOST_CHECK_EQUAL(with("cut({.parts = 3});", "# words\n\nCutOptions.is_open\n  is never closed\n"), "");
  BOOST_CHECK_EQUAL(with("cut({.parts = 3, .is_open = true});", "CutOptions.is_open\n  is never closed\n"),
                    "tests/neutral.txt: CutOptions.is_open needs no excuse\n");
}
