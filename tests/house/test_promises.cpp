// What script/promises recognises as a promise, and as its proof.
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
  // The output of script/promises --check.
  std::string faults() const {
    FILE* const pipe =
        popen(((kSource / "script/promises").string() + " --check --root " + root.string()).c_str(), "r");
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
