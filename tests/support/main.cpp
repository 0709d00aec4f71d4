// main() of each test, which is named after its executable. Its object file also owns the headers that are precompiled
// for the tests.
#define BOOST_TEST_NO_MAIN
#include <boost/test/unit_test.hpp>

#include <filesystem>

namespace {

bool name_module() {
  auto& module = boost::unit_test::framework::master_test_suite();
  module.p_name.value = std::filesystem::path(module.argv[0]).filename().string();
  return true;
}

}  // namespace

int main(int argc, char** argv) { return boost::unit_test::unit_test_main(name_module, argc, argv); }
