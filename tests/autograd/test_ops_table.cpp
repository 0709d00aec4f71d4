// Every row of the table of ops, with all typical arguments, against its naive reference.
// needs: precision: double single; simd: avx512 avx2 plain
#include "support/op_check.h"
#include "support/ops/table.h"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace test;

namespace {

void check_refusal(const std::string& name, const OpCase& c) {
  seppo::tape().clear();
  std::vector<Tensor> inputs;
  std::string what = name + " accepted";
  for (const Shape& shape : c.shapes) {
    inputs.push_back(seppo::ones(shape));
    what += " " + shape.str();
  }
  try {
    c.op(inputs);
    BOOST_ERROR(what);
  } catch (const seppo::Error&) {
  }
}

}  // namespace

BOOST_DATA_TEST_CASE(rows, boost::unit_test::data::make(ops_table()), row) {
  int fit = 0;
  for (const OpCase& c : typical_cases(row)) {
    if (c.fits) {
      check_op(row.name, c.shapes, c.op, c.reference, c.options);
      ++fit;
    } else {
      check_refusal(row.name, c);
    }
  }
  BOOST_CHECK_GT(fit, 0);
}
