// The exercises as they are handed out, all to be written, and their solutions, all right.
// needs: programs: homework homework_solutions
#include "homework/loops.h"
#include "support/matches.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

using namespace test;

namespace {

constexpr std::size_t kExercises = 14;

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_written_yet) {
  const Folder folder("homework");
  const Result r = folder.run({"homework"});
  BOOST_CHECK_EQUAL(r.code, 1);
  BOOST_CHECK_EQUAL(matches(r.out, "[a-z_, ]+ not written yet\n").size(), kExercises);
  BOOST_CHECK(r.out.ends_with("\n0 of 14 right\n"));
}

BOOST_AUTO_TEST_CASE(the_solutions_are_right) {
  const Folder folder("homework");
  const Result r = folder.run({"homework_solutions"});
  BOOST_CHECK_MESSAGE(r.code == 0 && r.out.ends_with("\n14 of 14 right\n"), r.out);
  const auto errors = matches(r.out, "error: ([0-9.e+-]+) +ok\n");
  BOOST_REQUIRE_EQUAL(errors.size(), kExercises);
  int of_single_precision = 0;  // a comparison that compared nothing would give 0
  for (const Match& m : errors) of_single_precision += std::stod(m[1]) > 1e-9;
  BOOST_CHECK_GE(of_single_precision, 8);
}

// The loops that answers are compared with, by hand: two positions, of which the second sees both.
BOOST_AUTO_TEST_CASE(loops_by_hand) {
  const homework::Array q{1, 2, 1, {0, 1}}, k{1, 2, 1, {0, std::log(3)}}, v{1, 2, 1, {8, 4}};
  const homework::Array causal = homework::loops::attention(q, k, v, true),
                        all = homework::loops::attention(q, k, v, false);
  BOOST_CHECK_CLOSE(causal.values[0], 8, 1e-9);
  BOOST_CHECK_CLOSE(all.values[0], 6, 1e-9);
  BOOST_CHECK_CLOSE(causal.values[1], 0.25 * 8 + 0.75 * 4, 1e-9);
  BOOST_CHECK_CLOSE(all.values[1], 5, 1e-9);
}
