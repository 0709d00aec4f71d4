// Einstein summation: of two tensors, as one batched matrix product.
#include "../ops.h"

#include <algorithm>
#include <limits>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

bool has(std::string_view labels, char label) { return labels.find(label) != std::string_view::npos; }

constexpr std::string_view kDigits = "0123456789";  // label the axes of "...": 9 the last, 8 the one before, ...

struct Equation {
  std::string a, b, y;
};

Equation parse(std::string_view equation, const Tensor& a, const Tensor& b) {
  std::string text(equation);
  std::erase(text, ' ');
  constexpr std::size_t kNone = std::string::npos;
  const std::size_t arrow = text.find("->"), comma = text.find(',');
  check<ArgumentError>((comma == kNone) != b.defined() && (comma == kNone || comma < arrow), "einsum: the equation of ",
                       b.defined() ? "two operands must be like \"ij,jk->ik\"" : "one operand must be like \"ij->ji\"",
                       ", got \"", equation, "\"");
  std::size_t most = 0;  // axes of a "..."
  // The labels of an operand, or of the result, with "..." written out.
  const auto labels_of = [&](std::string labels, const char* role, const Tensor* x) {
    const std::string given = labels;
    const std::size_t dots = labels.find("...");
    if (dots != kNone) labels.erase(dots, 3);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      check<ArgumentError>((labels[i] >= 'a' && labels[i] <= 'z') || (labels[i] >= 'A' && labels[i] <= 'Z'),
                           "einsum: labels are letters, got \"", equation, "\"");
      check<ArgumentError>(labels.find(labels[i]) == i, "einsum: label ", labels[i], " is repeated within \"", given,
                           "\": diagonals are not supported");
    }
    const std::size_t n = labels.size(), rest = x ? static_cast<std::size_t>(x->rank()) - n : most;
    check(!x || (dots == kNone ? rest == 0 : rest <= Shape::kMaxRank), "einsum: ", role, " ", x ? *x : a,
          " does not have the ", n, " axes \"", given, "\" of \"", equation, "\"");
    if (dots != kNone) labels.insert(dots, kDigits.substr(kDigits.size() - rest));
    most = std::max(most, x ? rest : 0);
    return labels;
  };
  Equation e;
  e.a = labels_of(text.substr(0, std::min(comma, arrow)), "lhs", &a);
  if (b.defined()) e.b = labels_of(text.substr(comma + 1, arrow - comma - 1), "rhs", &b);
  if (arrow != kNone) {
    e.y = labels_of(text.substr(arrow + 2), "result", nullptr);
  } else {
    const std::string all = e.a + e.b;
    for (char label = 'A'; label <= 'z'; ++label)
      if (has(all, label) && all.find(label) == all.rfind(label)) e.y += label;
    e.y.insert(0, kDigits.substr(kDigits.size() - most));
  }
  for (const char label : e.y)
    check<ArgumentError>(has(e.a, label) || has(e.b, label), "einsum: label ", label, " of the result is in no operand",
                         ", in \"", equation, "\"");
  check(e.y.size() <= Shape::kMaxRank, "einsum: the result of \"", equation, "\" has more than ", Shape::kMaxRank,
        " axes");
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
  const Equation e = parse(equation, a, b);
  std::string la = e.a, lb = e.b, batch, contracted, rows, columns;
  if (!b.defined()) {
    const Tensor summed = sum_own(a, la, "", e.y), y = arrange(summed, la, e.y);
    return reshape(y, y.shape());  // a new tensor, even if there was nothing to do
  }
  for (std::size_t i = 0; i < e.a.size(); ++i)
    if (const std::size_t j = e.b.find(e.a[i]); j != std::string::npos)
      check(a.size(static_cast<int>(i)) == b.size(static_cast<int>(j)), "einsum: sizes of ",
            has(kDigits, e.a[i]) ? "\"...\"" : "label " + e.a.substr(i, 1), " differ: lhs ", a, " dim ", i, " = ",
            a.size(static_cast<int>(i)), ", rhs ", b, " dim ", j, " = ", b.size(static_cast<int>(j)));

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

}  // namespace SEPPO_ABI
}  // namespace seppo
