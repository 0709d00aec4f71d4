// What the networks of race see, and the table.
// needs: programs: race
#include "race/model.h"
#include "support/program.h"

#include <seppo/autograd/core/guards.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace test;
using race::Kind;

// The first digit changes the scores at the end if, and only if, there is a path.
BOOST_AUTO_TEST_CASE(a_path_is_what_is_seen) {
  const seppo::Inference inference;
  for (const Kind kind : {Kind::gru, Kind::convolution, Kind::dilated, Kind::transformer})
    for (const int length : {1, 8, 13, 14, 85, 86}) {
      seppo::tape().clear();
      seppo::Parameters parameters(1);
      const race::Network network(parameters.root(), kind, length);
      std::vector<int> digits(static_cast<std::size_t>(length), 3);
      const seppo::Tensor before = network(digits);
      digits[0] = 7;
      const seppo::Tensor after = network(digits);
      const bool is_seen = !std::ranges::equal(before.values(), after.values());
      BOOST_CHECK_MESSAGE(is_seen == network.path().has_value(), static_cast<int>(kind) << " of " << length);
    }
  seppo::tape().clear();
}

// Within five percent.
BOOST_AUTO_TEST_CASE(the_networks_are_of_equal_size) {
  std::vector<std::size_t> sizes;
  for (const Kind kind : {Kind::gru, Kind::convolution, Kind::dilated, Kind::transformer}) {
    seppo::Parameters parameters(1);
    const race::Network network(parameters.root(), kind, 16);
    sizes.push_back(parameters.count());
  }
  const auto [least, most] = std::ranges::minmax(sizes);
  BOOST_CHECK_LT(static_cast<double>(most), 1.05 * static_cast<double>(least));
}

BOOST_AUTO_TEST_CASE(the_table) {
  const Folder folder("race");
  const Result r = folder.run({"race", "--longest", "16", "--steps", "10", "--json"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const std::vector<Json> rows = last_line(r.out)["rows"].elements();
  BOOST_REQUIRE_EQUAL(rows.size(), 8u);
  const std::vector<double> paths{7, 3, 3, 1, 15, 0, 3, 1};  // 0: none
  for (std::size_t i = 0; i < 8; ++i) {
    const Json path = rows[i]["path"];
    BOOST_CHECK_EQUAL(path.is_null() ? 0 : path.number(), paths[i]);
    BOOST_CHECK_EQUAL(rows[i]["length"].number(), i < 4 ? 8 : 16);
    BOOST_CHECK(rows[i]["right"].number() >= 0 && rows[i]["right"].number() <= 1 && rows[i]["mb"].number() > 0);
  }
  BOOST_CHECK(r.out.find(" none\n") != std::string::npos);
  check_refused(folder, {"race", "--longest", "7"}, 2, "--longest");
  check_refused(folder, {"race", "--longest", "100"}, 2, "--longest: 100 is none of 8, 16, 32 ...");
  // A seed decides all, and another one something.
  const auto answers = [&](const char* seed) {
    const Result run = folder.run({"race", "--longest", "8", "--steps", "20", "--seed", seed, "--json"});
    std::vector<double> right;
    for (const Json& row : last_line(run.out)["rows"].elements()) right.push_back(row["right"].number());
    return right;
  };
  const std::vector<double> first = answers("1");
  BOOST_CHECK(first == answers("1"));
  BOOST_CHECK(first != answers("2"));
}
