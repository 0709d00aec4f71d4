// Small programs report when their output cannot be written. All link to the same check; these run quickly, and use
// printf or std::cout.
// needs: programs: adder long_adder custom_op graph spiral first_transformer gpt2_import
#include "support/program.h"

#include <cstdlib>

using namespace test;

BOOST_AUTO_TEST_CASE(a_full_disk_is_noticed, *boost::unit_test::precondition(test::ends_in_time)) {
  if (!fs::exists("/dev/full")) return;
  const Folder folder("small-output");
  const auto run = [&](const std::string& program, const std::string& to) {
    const std::string command =
        "cd '" + folder.path.string() + "' && '" + programs_folder() + "/" + program + "' > " + to + " 2> err";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  for (const char* program : {"custom_op", "graph", "spiral", "first_transformer"}) {
    BOOST_CHECK_EQUAL(run(program, "out"), 0);
    BOOST_CHECK_MESSAGE(read(folder.path / "err").empty() && !read(folder.path / "out").empty(), program);
    BOOST_CHECK_MESSAGE(run(program, "/dev/full") == 74, program);
    BOOST_CHECK_EQUAL(read(folder.path / "err"), "standard output: cannot write\n");
  }
}

// A number with more behind it is no number; the file is not even opened.
BOOST_AUTO_TEST_CASE(tokens_are_numbers) {
  const Folder folder("small-output");
  const std::string expected = "gpt2_import: expected FILE HEADS TOKEN..., or nothing";
  for (const char* heads : {"12", "12x", "x", ""})
    for (const char* token : {"7", "7 ", "7.5", "0x7", "99999999999"}) {
      const bool are_numbers = heads == std::string("12") && token == std::string("7");
      check_refused(folder, {"gpt2_import", "none", heads, token}, are_numbers ? 74 : 2,
                    are_numbers ? "none" : expected);
    }
}

// The record in docs/records.md: so few parameters, and sums that it was not trained on.
BOOST_AUTO_TEST_CASE(nine_parameters_add, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("small-output");
  const Result result = folder.run({"adder", "2", "1"});
  BOOST_CHECK_EQUAL(result.code, 0);
  BOOST_CHECK_MESSAGE(result.out.ends_with("9 parameters: 2010 of 2010 sums are right\n"), result.out);
}

// The record of length: sums of numbers that are six times as long as those of the training, with the longest carry.
BOOST_AUTO_TEST_CASE(nine_parameters_add_longer_numbers, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("small-output");
  const Result result = folder.run({"long_adder", "2", "20", "200"});
  BOOST_CHECK_EQUAL(result.code, 0);
  BOOST_CHECK_MESSAGE(result.out.ends_with("9 parameters, 200 digits: 20 of 20 sums right\n"), result.out);
  BOOST_CHECK(folder.run({"long_adder", "--help"}).out.starts_with("long_adder [SEED [SUMS [DIGITS ...]]]: "));
}
