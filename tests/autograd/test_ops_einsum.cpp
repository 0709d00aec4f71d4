// Equations that the table of ops does not draw, against the loop over all labels.
// needs: precision: double; full: single; simd: avx2 plain
#include "support/op_check.h"
#include "support/reference.h"

#include <array>

using namespace test;
namespace ref = test::reference;

namespace {

int size_of(char label) { return 2 + (label - 'a') % 3; }

Shape shape_of(const std::string& labels) {
  std::vector<int> sizes;
  for (const char label : labels) sizes.push_back(size_of(label));
  return Shape(std::span<const int>(sizes));
}

template <class T>
Nd<T> einsum_of(const std::string& a, const std::string& b, const std::string& y, const Arrays<T>& x) {
  std::string labels = a;
  for (const char label : b)
    if (labels.find(label) == std::string::npos) labels += label;
  const auto select = [&](const std::vector<int>& index, const std::string& own) {
    std::vector<int> result;
    for (const char label : own) result.push_back(index[labels.find(label)]);
    return result;
  };
  Nd<T> out(sizes_of(shape_of(y)));
  std::vector<int> all;
  for (const char label : labels) all.push_back(size_of(label));
  each_index(all, [&](const std::vector<int>& index) {
    out(select(index, y)) += x.size() == 1 ? x[0](select(index, a)) : x[0](select(index, a)) * x[1](select(index, b));
  });
  return out;
}

}  // namespace

// Equations with "..." or without a result, against the same equations with every label written out.
BOOST_AUTO_TEST_CASE(einsum_with_dots_and_without_an_arrow) {
  for (const auto& [equation, a, b, y] :
       std::vector<std::array<std::string, 4>>{{"...ij,...jk->...ik", "abij", "bjk", "abik"},
                                               {"...ij,...jk->ik...", "abij", "bjk", "ikab"},
                                               {"...,...->...", "b", "ab", "ab"},
                                               {"i...,i...->...", "iab", "iab", "ab"},
                                               {"...i,i->...", "abi", "i", "ab"},
                                               {"...i,i->...", "i", "i", ""},
                                               {"b...d, ...d -> b...", "bxyd", "yd", "bxy"},
                                               {"...i,...i->i", "abi", "bi", "i"},
                                               {"ij,jk", "ij", "jk", "ik"},
                                               {"kj,ji", "kj", "ji", "ik"},
                                               {"i,i", "i", "i", ""},
                                               {"j,i", "j", "i", "ij"},
                                               {"...kj,...ji", "abkj", "abji", "abik"},
                                               {"z...,y", "zab", "y", "abyz"},
                                               {"aF,FCb", "aF", "FCb", "Cab"}})
    check_op(
        "einsum " + equation, {shape_of(a), shape_of(b)},
        [&, equation = equation](Inputs x) { return seppo::einsum(equation, x[0], x[1]); },
        [&, a = a, b = b, y = y](const auto& x) { return einsum_of(a, b, y, x); });
}

BOOST_AUTO_TEST_CASE(einsum_of_one_operand) {
  for (const auto& [equation, a, y] : std::vector<std::array<std::string, 3>>{{"ij", "ij", "ij"},
                                                                              {"ba", "ba", "ab"},
                                                                              {"...ij->...ji", "abij", "abji"},
                                                                              {"i...->...", "iab", "ab"},
                                                                              {"...i->i", "abi", "i"},
                                                                              {"b...a", "bxya", "xyab"}})
    check_op(
        "einsum " + equation, {shape_of(a)},
        [&, equation = equation](Inputs x) { return seppo::einsum(equation, x[0]); },
        [&, a = a, y = y](const auto& x) { return einsum_of(a, "", y, x); });
}

BOOST_AUTO_TEST_CASE(einsum_of_one_tensor_with_itself) {
  check_op(
      "einsum aliased", {shape_of("ij")}, [](Inputs x) { return seppo::einsum("ij,kj->ik", x[0], x[0]); },
      [](const auto& x) {
        using T = typename std::decay_t<decltype(x)>::value_type;
        T y = x[0];
        y.shape = {x[0].size(0), x[0].size(0)};
        y.v.assign(static_cast<std::size_t>(x[0].size(0) * x[0].size(0)), 0.0);
        each_index({x[0].size(0), x[0].size(0), x[0].size(1)}, [&](const std::vector<int>& i) {
          y({i[0], i[1]}) += x[0]({i[0], i[2]}) * x[0]({i[1], i[2]});
        });
        return y;
      });
  seppo::tape().clear();
  BOOST_CHECK_EQUAL(seppo::einsum("zZ,zZ->", seppo::ones({2, 3}), seppo::ones({2, 3})).item(), 6);
  BOOST_CHECK_EQUAL(seppo::einsum("Aa,Aa->", seppo::ones({2, 3}), seppo::ones({2, 3})).item(), 6);
}
