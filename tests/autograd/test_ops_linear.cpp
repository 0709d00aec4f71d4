// matmul, linear and their fused forms against naive references.
// needs: precision: double single; simd: avx512 avx2 plain
#define BOOST_TEST_MODULE ops_linear
#include "support/op_check.h"
#include "support/reference.h"

using namespace test;
namespace ref = test::reference;

BOOST_AUTO_TEST_CASE(matmul) {
  const std::vector<std::vector<Shape>> cases = {{{2, 3}, {3, 4}},
                                                 {{1, 1}, {1, 1}},
                                                 {{5, 1}, {1, 6}},
                                                 {{0, 3}, {3, 4}},
                                                 {{3, 0}, {0, 4}},
                                                 {{2, 3}, {3, 0}},
                                                 {{2, 3, 4}, {4, 5}},
                                                 {{2, 3, 4}, {2, 4, 5}},
                                                 {{3, 4}, {2, 4, 5}},
                                                 {{1, 3, 4}, {2, 4, 5}},
                                                 {{2, 3, 4}, {1, 4, 5}},
                                                 {{2, 3, 4, 5}, {5, 6}},
                                                 {{2, 3, 4, 5}, {2, 3, 5, 2}},
                                                 {{2, 1, 4, 5}, {3, 5, 2}},
                                                 {{2, 1, 4, 5}, {1, 3, 5, 2}},
                                                 {{3, 4, 5}, {2, 1, 5, 2}},
                                                 {{0, 2, 3}, {0, 3, 2}},
                                                 {{17, 9}, {9, 18}}};
  for (const auto& shapes : cases)
    check_op(
        "matmul", shapes, [](Inputs x) { return seppo::matmul(x[0], x[1]); },
        [](const auto& x) { return ref::matmul(x[0], x[1]); });
  check_op(
      "matmul aliased", {{4, 4}}, [](Inputs x) { return seppo::matmul(x[0], x[0]); },
      [](const auto& x) { return ref::matmul(x[0], x[0]); });
  check_op(
      "matmul aliased", {{2, 3, 3}}, [](Inputs x) { return seppo::matmul(x[0], x[0]); },
      [](const auto& x) { return ref::matmul(x[0], x[0]); });
}

namespace {

// y = activation(x W^T + b)
template <class T>
Nd<T> linear_reference(const Arrays<T>& in, bool relu) {
  Nd<T> y = ref::matmul(in[0].rank() == 1 ? Nd<T>() : in[0], ref::permute(in[1], {1, 0}));
  if (in.size() > 2) y = ref::zip(y, in[2], [](auto a, auto b) { return a + b; });
  if (relu) y = ref::map(y, [](auto v) { return real_part(v) > 0 ? v : T(0); });
  return y;
}

template <class T>
Nd<T> gelu_of(const Nd<T>& x) {
  return ref::map(x, [](auto v) { return 0.5 * v * (1.0 + ref::erf(v / std::sqrt(2.0))); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(linear) {
  const std::vector<std::vector<Shape>> cases = {{{3, 4}, {5, 4}, {5}},       {{2, 3, 4}, {5, 4}, {5}},
                                                 {{1, 1}, {1, 1}, {1}},       {{0, 4}, {5, 4}, {5}},
                                                 {{2, 2, 3, 4}, {2, 4}, {2}}, {{9, 17}, {18, 17}, {18}}};
  for (auto shapes : cases) {
    check_op(
        "linear", shapes, [](Inputs x) { return seppo::linear(x[0], x[1], x[2]); },
        [](const auto& x) { return linear_reference(x, false); });
    check_op(
        "linear relu", shapes, [](Inputs x) { return seppo::linear(x[0], x[1], x[2], seppo::Activation::relu); },
        [](const auto& x) { return linear_reference(x, true); });
    check_op(
        "linear gelu", shapes, [](Inputs x) { return seppo::linear(x[0], x[1], x[2], seppo::Activation::gelu); },
        [](const auto& x) { return gelu_of(linear_reference(x, false)); });
    shapes.pop_back();
    check_op(
        "linear without bias", shapes, [](Inputs x) { return seppo::linear(x[0], x[1]); },
        [](const auto& x) { return linear_reference(x, false); });
  }
  check_op(
      "linear aliased", {{4, 4}}, [](Inputs x) { return seppo::linear(x[0], x[0]); },
      [](const auto& x) {
        return ref::matmul(x[0], ref::permute(x[0], {1, 0}));
      });
}
