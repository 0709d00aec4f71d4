// Factories (ranges, constants, one-hot rows) and printing.
#define BOOST_TEST_MODULE create
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <limits>
#include <sstream>
#include <vector>

using namespace seppo;

namespace {

std::vector<real> values(const Tensor& x) { return {x.values().begin(), x.values().end()}; }

}  // namespace

// As in torch.arange, the end is excluded, and the number of elements is ceil((end - start) / step).
BOOST_AUTO_TEST_CASE(ranges) {
  tape().clear();
  BOOST_CHECK((values(arange(4)) == std::vector<real>{0, 1, 2, 3}));
  BOOST_CHECK((values(arange(1, 2.5, 0.5)) == std::vector<real>{1, 1.5, 2}));
  BOOST_CHECK((values(arange(3, 0, -2)) == std::vector<real>{3, 1}));
  BOOST_CHECK((values(arange(2.5)) == std::vector<real>{0, 1, 2}));
  BOOST_CHECK(arange(0).shape() == Shape{0} && arange(3, 1).numel() == 0);
  BOOST_CHECK_THROW(arange(0, 1, 0), ArgumentError);
  BOOST_CHECK_THROW(arange(std::numeric_limits<double>::infinity()), ArgumentError);
  BOOST_CHECK_THROW(arange(1e10), ShapeError);
}

BOOST_AUTO_TEST_CASE(constants_in_the_shape_of_another) {
  tape().clear();
  const Tensor x = variable({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const Tensor& y : {zeros_like(x), ones_like(x)}) BOOST_CHECK(y.shape() == x.shape() && !y.requires_grad());
  BOOST_CHECK_EQUAL(sum(zeros_like(x)).item(), 0);
  BOOST_CHECK_EQUAL(sum(ones_like(x)).item(), 6);
}

BOOST_AUTO_TEST_CASE(one_hot_rows) {
  tape().clear();
  const Tensor y = one_hot(std::vector<int>{2, 0}, 3);
  BOOST_CHECK(y.shape() == (Shape{2, 3}));
  BOOST_CHECK((values(y) == std::vector<real>{0, 0, 1, 1, 0, 0}));
  BOOST_CHECK(one_hot(std::vector<int>{}, 3).shape() == (Shape{0, 3}));
  BOOST_CHECK_THROW(one_hot(std::vector<int>{3}, 3), IndexError);
  BOOST_CHECK_THROW(one_hot(std::vector<int>{-1}, 3), IndexError);
  BOOST_CHECK_THROW(one_hot(std::vector<int>{}, 0), ArgumentError);
}

BOOST_AUTO_TEST_CASE(tensors_print_as_numpy_prints_them) {
  tape().clear();
  BOOST_CHECK_EQUAL(to_string(full({}, -1.5)), "-1.5");
  BOOST_CHECK_EQUAL(to_string(tensor({3}, {1, 20, 3})), "[ 1 20  3]");
  BOOST_CHECK_EQUAL(to_string(tensor({2, 2}, {1, real(-0.25), 1e10, 0})), "[[    1 -0.25]\n [1e+10     0]]");
  BOOST_CHECK_EQUAL(to_string(reshape(arange(4), {2, 1, 2})), "[[[0 1]]\n\n [[2 3]]]");
  BOOST_CHECK_EQUAL(to_string(zeros({0})), "[]");
  BOOST_CHECK_EQUAL(to_string(zeros({2, 0})), "[]");
  BOOST_CHECK_EQUAL(to_string(full({2}, std::numeric_limits<real>::quiet_NaN())), "[nan nan]");
  std::ostringstream out;
  out << arange(2);
  BOOST_CHECK_EQUAL(out.str(), "[0 1]");
}

BOOST_AUTO_TEST_CASE(long_tensors_print_their_ends) {
  tape().clear();
  BOOST_CHECK_EQUAL(to_string(arange(2000)), "[   0    1    2 ... 1997 1998 1999]");
  BOOST_CHECK_EQUAL(to_string(reshape(arange(1002), {501, 2})),
                    "[[   0    1]\n [   2    3]\n [   4    5]\n ...\n [ 996  997]\n [ 998  999]\n [1000 1001]]");
  BOOST_CHECK_LT(to_string(zeros({100, 100, 100})).size(), 1000);
  BOOST_CHECK_EQUAL(to_string(arange(1000)).find("..."), std::string::npos);
  BOOST_CHECK_THROW(to_string(Tensor()), StateError);
}
