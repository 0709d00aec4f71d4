// Einstein summation of two tensors, as one batched matrix product.
#include "../ops.h"

#include <algorithm>
#include <limits>
#include <string>

namespace seppo::inline SEPPO_ABI {
namespace {

bool has(std::string_view labels, char label) { return labels.find(label) != std::string_view::npos; }

struct Equation {
  std::string_view a, b, y;
};

Equation parse(std::string_view equation) {
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  check<ArgumentError>(comma != std::string_view::npos && arrow != std::string_view::npos && comma < arrow,
                       "einsum: the equation must be like \"ij,jk->ik\", got \"", equation, "\"");
  const Equation e{equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1),
                   equation.substr(arrow + 2)};
  for (const std::string_view labels : {e.a, e.b, e.y})
    for (std::size_t i = 0; i < labels.size(); ++i) {
      check<ArgumentError>((labels[i] >= 'a' && labels[i] <= 'z') || (labels[i] >= 'A' && labels[i] <= 'Z'),
                           "einsum: labels are letters, got \"", equation, "\"");
      check<ArgumentError>(!has(labels.substr(0, i), labels[i]), "einsum: label ", labels[i], " is repeated within \"",
                           labels, "\": diagonals are not supported");
    }
  for (const char label : e.y)
    check<ArgumentError>(has(e.a, label) || has(e.b, label), "einsum: label ", label, " of the result is in no operand",
                         ", in \"", equation, "\"");
  return e;
}

// Sums over the labels of x that are in neither the other operand nor the result, and drops them.
Tensor sum_own(Tensor x, std::string& labels, std::string_view other, std::string_view result) {
  for (std::size_t i = labels.size(); i-- > 0;)
    if (!has(other, labels[i]) && !has(result, labels[i])) {
      x = sum(x, static_cast<int>(i));
      labels.erase(i, 1);
    }
  return x;
}

// x with its axes in the order of `to`, a permutation of its labels.
Tensor arrange(const Tensor& x, std::string_view labels, std::string_view to) {
  if (labels == to) return x;
  int axes[Shape::kMaxRank];
  for (std::size_t i = 0; i < to.size(); ++i) axes[i] = static_cast<int>(labels.find(to[i]));
  return permute(x, {axes, to.size()});
}

}  // namespace

// The labels fall into four groups: in both operands and the result (batch), in both but not the result
// (contracted), and in the result and only one operand (rows of a, columns of b).
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b) {
  const Equation e = parse(equation);
  const auto check_rank = [&](const char* role, const Tensor& x, std::string_view labels) {
    check(static_cast<std::size_t>(x.rank()) == labels.size(), "einsum: ", role, " ", x, " does not have the ",
          labels.size(), " axes \"", labels, "\" of \"", equation, "\"");
  };
  check_rank("lhs", a, e.a);
  check_rank("rhs", b, e.b);
  check(e.y.size() <= Shape::kMaxRank, "einsum: the result of \"", equation, "\" has more than ", Shape::kMaxRank,
        " axes");
  for (std::size_t i = 0; i < e.a.size(); ++i)
    if (const std::size_t j = e.b.find(e.a[i]); j != std::string_view::npos)
      check(a.size(static_cast<int>(i)) == b.size(static_cast<int>(j)), "einsum: sizes of label ", e.a[i],
            " differ: lhs ", a, " dim ", i, " = ", a.size(static_cast<int>(i)), ", rhs ", b, " dim ", j, " = ",
            b.size(static_cast<int>(j)));

  std::string la(e.a), lb(e.b), batch, contracted, rows, columns;
  const Tensor left = sum_own(a, la, e.b, e.y), right = sum_own(b, lb, e.a, e.y);
  for (const char label : la) (has(lb, label) ? has(e.y, label) ? batch : contracted : rows) += label;
  for (const char label : lb)
    if (!has(la, label)) columns += label;

  Shape result;
  const auto product = [&](const Tensor& x, std::string_view labels, std::string_view group, bool in_result) {
    std::int64_t total = 1;
    for (const char label : group) {
      const int size = x.size(static_cast<int>(labels.find(label)));
      total *= size;
      check(total <= std::numeric_limits<int>::max(), "einsum: labels \"", group, "\" of ", x,
            " have together more than ", std::numeric_limits<int>::max(), " elements");
      if (in_result) result.append(size);
    }
    return static_cast<int>(total);
  };
  const int n_batch = product(left, la, batch, true), m = product(left, la, rows, true);
  const int n = product(right, lb, columns, true), k = product(left, la, contracted, false);
  const Tensor y = matmul(reshape(arrange(left, la, batch + rows + contracted), Shape{n_batch, m, k}),
                          reshape(arrange(right, lb, batch + contracted + columns), Shape{n_batch, k, n}));
  return arrange(reshape(y, result), batch + rows + columns, e.y);
}

}  // namespace seppo::inline SEPPO_ABI
