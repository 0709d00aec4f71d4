// The whole table, and calls that are drawn from it.
#include "support/ops/table.h"

#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <algorithm>
#include <charconv>

namespace test {

const std::vector<OpRow>& ops_table() {
  static const std::vector<OpRow> table =
      joined({elementwise_rows(), reduction_rows(), softmax_and_norm_rows(), shape_rows(), index_rows(), loss_rows(),
              ctc_rows(), product_rows(), group_rows(), attention_rows()});
  return table;
}

std::vector<OpRow> joined(const std::vector<std::vector<OpRow>>& lists) {
  std::vector<OpRow> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

bool broadcast(const Shape& a, const Shape& b) {
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i)
    if (a[-i] != b[-i] && a[-i] != 1 && b[-i] != 1) return false;
  return true;
}

std::string text(double number) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

std::string text(const std::vector<int>& list) {
  std::string text = "[";
  for (const int one : list) text += std::to_string(one) + ", ";
  return text + "]";
}

OpCase drawn(const OpRow& row, Draw& draw) {
  OpCase c = row.draw(draw);
  c.shapes = draw.inputs;
  return c;
}

std::vector<OpCase> typical_cases(const OpRow& row) {
  std::vector<OpCase> cases;
  EveryDraw draw;
  do cases.push_back(drawn(row, draw));
  while (draw.next());
  return cases;
}

OpCase of_positive(const OpCase& of) {
  OpCase c = of;
  c.op = [op = of.op](Inputs x) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : x) inputs.push_back(seppo::square(input) + 0.5);
    return op(inputs);
  };
  c.reference = [reference = of.reference](auto x) {
    for (auto& input : x) input = reference::map(input, [](auto e) { return e * e + 0.5; });
    return reference(x);
  };
  return c;
}

}  // namespace test
