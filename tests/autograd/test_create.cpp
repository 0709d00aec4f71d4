// Factories (ranges, constants, one-hot rows), and what is printed of tensors and text.
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/autograd/ops.h>

#include "support/errors.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdio>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using namespace seppo;
using test::contains;
using test::message;

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

BOOST_AUTO_TEST_CASE(tensors_from_numbers_of_any_type) {
  tape().clear();
  const double third = 1.0 / 3;
  const std::vector<double> doubles{third, -2};
  const std::vector<float> floats{0.1f, -2};
  const std::array<int, 2> integers{1, -2};
  const auto both = [](double a, double b) { return std::vector<real>{static_cast<real>(a), static_cast<real>(b)}; };
  BOOST_CHECK(values(tensor({2}, doubles)) == both(third, -2));
  BOOST_CHECK(values(tensor({2}, std::span(floats))) == both(double{0.1f}, -2));
  BOOST_CHECK(values(tensor({2}, integers)) == both(1, -2));
  BOOST_CHECK(values(tensor({2}, {third, -2})) == both(third, -2));
  BOOST_CHECK_EQUAL(tensor({0, 2}, {}).numel(), 0);
  BOOST_CHECK_THROW(tensor({3}, doubles), ShapeError);
  BOOST_CHECK_THROW(tensor({3}, {third, -2}), ShapeError);
  for (const Tensor& x : {variable({2}, doubles), variable({2}, {third, -2})})
    BOOST_CHECK(x.requires_grad() && values(x) == both(third, -2));
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

namespace {

// The text that to_string() returns for x, built row by row.
std::string shown(const Tensor& x, int width, int first_row = 0, int axis = 0) {
  if (axis == x.rank()) {
    char number[64];
    std::snprintf(number, sizeof number, "%*.4g", width,
                  static_cast<double>(x.values()[static_cast<std::size_t>(first_row)]));
    return number;
  }
  std::string text = "[";
  const int n = x.size(axis), below = x.rank() - 1 - axis;
  const std::string gap = below == 0 ? " "
                                     : std::string(static_cast<std::size_t>(below), '\n') +
                                           std::string(static_cast<std::size_t>(axis + 1), ' ');
  for (int i = 0; i < n; ++i) {
    const bool is_left_out = x.numel() > 1000 && n > 6 && i >= 3 && i < n - 3;
    if (is_left_out && i > 3) continue;
    text += (i > 0 ? gap : "") + (is_left_out ? "..." : shown(x, width, first_row * n + i, axis + 1));
  }
  return text + "]";
}

}  // namespace

// Beyond 1000 elements, axes with more than six entries show only the first three and the last three.
BOOST_AUTO_TEST_CASE(long_axes_are_shortened) {
  RandomStream random(1, Purpose::test);
  for (const Shape& shape : {Shape{400, 4}, Shape{4, 400}, Shape{250, 4}, Shape{2, 7, 6, 13}, Shape{1001},
                             Shape{6, 200}, Shape{3, 2}, Shape{}}) {
    const Tensor x = randn(shape, random);
    const std::string text = to_string(x);
    std::size_t width = 0;
    while (width < 12 && text != shown(x, static_cast<int>(width))) ++width;
    BOOST_CHECK_MESSAGE(width < 12, shape.str() << ":\n" << text << "\nis not\n" << shown(x, 9));
  }
}

// UTF-8 as RFC 3629 defines it: the shortest form of a code point up to U+10FFFF that is not a surrogate.
BOOST_AUTO_TEST_CASE(characters_are_utf8) {
  const auto length_of = [](const unsigned(&b)[4]) -> std::size_t {
    const std::size_t length = b[0] < 0x80 ? 1 : b[0] >> 5 == 6 ? 2 : b[0] >> 4 == 14 ? 3 : b[0] >> 3 == 30 ? 4 : 0;
    unsigned code = length == 1 ? b[0] : b[0] & (0x7Fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
      if (b[i] >> 6 != 2) return 0;
      code = code << 6 | (b[i] & 0x3F);
    }
    const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    return code < least[length] || code > 0x10FFFF || code >> 11 == 27 ? 0 : length;
  };
  for (unsigned first = 0; first < 256; ++first)
    for (unsigned second = 0; second < 256; ++second)
      for (const unsigned third : {0x00u, 0x7Fu, 0x80u, 0xBFu, 0xC0u})
        for (const unsigned fourth : {0x41u, 0x80u, 0xBFu, 0xFFu}) {
          const unsigned bytes[] = {first, second, third, fourth};
          std::string text;
          for (const unsigned byte : bytes) text += static_cast<char>(byte);
          const std::size_t length = length_of(bytes);
          BOOST_REQUIRE_MESSAGE(character_length(text) == length,
                                first << " " << second << " " << third << " " << fourth);
          if (length > 1) BOOST_REQUIRE_EQUAL(character_length(text.substr(0, length - 1)), 0u);
          if (length == 0) continue;
          // Control characters are escaped byte by byte; all others but the backslash are shown as they are.
          const bool is_control = first < 0x20 || first == 0x7F || (first == 0xC2 && second < 0xA0);
          const std::string own = text.substr(0, length), shown = std::string(printable(own));
          BOOST_REQUIRE_MESSAGE(is_control ? shown.starts_with("\\") : shown == own || own == "\\", shown);
        }
}

BOOST_AUTO_TEST_CASE(ranges_have_as_many_elements_as_an_axis_can) {
  BOOST_CHECK(contains(message([] { arange(0, 3e9, 1); }), "arange: 3e+09 elements are more than an axis can have"));
}
