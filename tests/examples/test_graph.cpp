// The small program `graph` draws every op once, in the box of its module.
// needs: programs: graph
#include "support/program.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_CASE(the_graph_has_every_op_once) {
  const test::Folder folder("graph");
  const test::Result result = folder.run({"graph"});
  BOOST_CHECK_EQUAL(result.code, 0);
  const std::string& dot = result.out;
  const auto count = [&](const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = dot.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  BOOST_CHECK_EQUAL(count("label=\"linear\""), 1);
  BOOST_CHECK_EQUAL(count("label=\"mul\""), 1);
  BOOST_CHECK_EQUAL(count("label=\"sum\""), 1);
  BOOST_CHECK_EQUAL(count("label=\"up.weight [3,2]\", shape=box"), 1);
  BOOST_CHECK_EQUAL(count("label=\"variable [4,2]\""), 1);
  BOOST_CHECK_EQUAL(count(" -> "), 3 + 2 + 1);
  BOOST_CHECK_EQUAL(count("subgraph cluster_0 {\n    label=\"up\""), 1);
  BOOST_CHECK_EQUAL(count("{"), count("}"));
}
