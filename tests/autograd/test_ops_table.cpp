// Every row of the table of ops, against its naive reference.
// needs: precision: double single; simd: avx2 plain
#define BOOST_TEST_MODULE ops_table
#include "support/op_check.h"
#include "support/ops_table.h"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace test;

BOOST_DATA_TEST_CASE(rows, boost::unit_test::data::make(ops_table()), row) {
  for (const std::vector<Shape>& shapes : row.shapes) check_op(row.name, shapes, row.op, row.reference, row.options);
}
