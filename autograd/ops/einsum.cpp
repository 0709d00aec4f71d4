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

// Labels of an operand, or of the result, as the equation gives them.
struct Labels {
  std::string given;
  std::string letters;  // without "..."
  std::size_t dots;     // where "..." stands among the letters; npos if nowhere

  Labels(const std::string& text, std::string_view equation) : given(text), letters(text), dots(text.find("...")) {
    if (dots != std::string::npos) letters.erase(dots, 3);
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const char label = letters[i];
      check<ArgumentError>((label >= 'a' && label <= 'z') || (label >= 'A' && label <= 'Z'),
                           "einsum: labels are letters, got \"", equation, "\"");
      check<ArgumentError>(letters.find(label) == i, "einsum: label ", label, " is repeated within \"", given,
                           "\": diagonals are not supported");
    }
  }

  bool has_dots() const { return dots != std::string::npos; }

  // The labels with "..." written out as this many axes.
  std::string with(std::size_t axes) const {
    std::string all = letters;
    if (has_dots()) all.insert(dots, kDigits.substr(kDigits.size() - axes));
    return all;
  }
};

// A label for each axis of x.
std::string label_axes(const Labels& labels, const char* role, const Tensor& x, std::string_view equation) {
  const std::size_t n = labels.letters.size();
  const std::size_t rest = static_cast<std::size_t>(x.rank()) - n;  // beyond the maximum if there are too many labels
  const std::size_t most = labels.has_dots() ? Shape::kMaxRank : 0;
  check(rest <= most, "einsum: ", role, " ", x, " does not have the ", n, " axes \"", labels.given, "\" of \"",
        equation, "\"");
  return labels.with(rest);
}

// How many of the labels stand for axes of "...".
std::size_t count_digits(std::string_view labels) {
  return static_cast<std::size_t>(std::ranges::count_if(labels, [](char label) { return has(kDigits, label); }));
}

// The result of an equation without "->": the axes of "...", and the labels that occur once in alphabetical order.
std::string implied_result(const std::string& operands, std::size_t dotted) {
  std::string result(kDigits.substr(kDigits.size() - dotted));
  for (char label = 'A'; label <= 'z'; ++label) {
    const std::size_t first = operands.find(label);
    if (first != std::string::npos && first == operands.rfind(label)) result += label;
  }
  return result;
}

Equation parse(std::string_view equation, const Tensor& a, const Tensor& b) {
  std::string text(equation);
  std::erase(text, ' ');
  constexpr std::size_t kNone = std::string::npos;
  const std::size_t arrow = text.find("->");
  const std::size_t comma = text.find(',');
  check<ArgumentError>((comma == kNone) != b.defined() && (comma == kNone || comma < arrow), "einsum: the equation of ",
                       b.defined() ? "two operands must be like \"ij,jk->ik\"" : "one operand must be like \"ij->ji\"",
                       ", got \"", equation, "\"");
  Equation e;
  e.a = label_axes(Labels(text.substr(0, std::min(comma, arrow)), equation), "lhs", a, equation);
  if (b.defined()) e.b = label_axes(Labels(text.substr(comma + 1, arrow - comma - 1), equation), "rhs", b, equation);
  const std::size_t dotted = std::max(count_digits(e.a), count_digits(e.b));
  if (arrow == kNone)
    e.y = implied_result(e.a + e.b, dotted);
  else
    e.y = Labels(text.substr(arrow + 2), equation).with(dotted);
  for (const char label : e.y)
    check<ArgumentError>(has(e.a, label) || has(e.b, label), "einsum: label ", label, " of the result is in no operand",
                         ", in \"", equation, "\"");
  check(e.y.size() <= Shape::kMaxRank, "einsum: the result of \"", equation, "\" has more than ", Shape::kMaxRank,
        " axes");
  return e;
}

// Checks that labels which both operands have stand for equal sizes.
void check_sizes(const Equation& e, const Tensor& a, const Tensor& b) {
  for (std::size_t i = 0; i < e.a.size(); ++i) {
    const std::size_t j = e.b.find(e.a[i]);
    if (j == std::string::npos) continue;
    const int size_a = a.size(static_cast<int>(i));
    const int size_b = b.size(static_cast<int>(j));
    check(size_a == size_b, "einsum: sizes of ", has(kDigits, e.a[i]) ? "\"...\"" : "label " + e.a.substr(i, 1),
          " differ: lhs ", a, " dim ", i, " = ", size_a, ", rhs ", b, " dim ", j, " = ", size_b);
  }
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

// The labels of two operands, by their part in the product.
struct Groups {
  std::string batch;       // in both operands and the result
  std::string contracted;  // in both operands, but not in the result
  std::string rows;        // only in a
  std::string columns;     // only in b
};

Groups group(std::string_view a, std::string_view b, std::string_view result) {
  Groups groups;
  for (const char label : a) {
    if (!has(b, label))
      groups.rows += label;
    else if (has(result, label))
      groups.batch += label;
    else
      groups.contracted += label;
  }
  for (const char label : b)
    if (!has(a, label)) groups.columns += label;
  return groups;
}

// How many elements x has along the axes of a group, which become one axis of the product.
int elements(const Tensor& x, std::string_view labels, std::string_view group) {
  std::int64_t total = 1;
  for (const char label : group) {
    total *= x.size(static_cast<int>(labels.find(label)));
    check(total <= std::numeric_limits<int>::max(), "einsum: labels \"", group, "\" of ", x,
          " have together more than ", std::numeric_limits<int>::max(), " elements");
  }
  return static_cast<int>(total);
}

void append_sizes(Shape& shape, const Tensor& x, std::string_view labels, std::string_view group) {
  for (const char label : group) shape.append(x.size(static_cast<int>(labels.find(label))));
}

// Of one operand: sums and a permutation.
Tensor rearrange(const Equation& e, const Tensor& x) {
  std::string labels = e.a;
  const Tensor summed = sum_own(x, labels, "", e.y);
  const Tensor y = arrange(summed, labels, e.y);
  return reshape(y, y.shape());  // a new tensor, even if there was nothing to do
}

}  // namespace

Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b) {
  const Equation e = parse(equation, a, b);
  if (!b.defined()) return rearrange(e, a);
  check_sizes(e, a, b);
  std::string labels_a = e.a;
  std::string labels_b = e.b;
  const Tensor left = sum_own(a, labels_a, e.b, e.y);
  const Tensor right = sum_own(b, labels_b, e.a, e.y);
  const Groups groups = group(labels_a, labels_b, e.y);

  const int batch = elements(left, labels_a, groups.batch);
  const int m = elements(left, labels_a, groups.rows);
  const int n = elements(right, labels_b, groups.columns);
  const int k = elements(left, labels_a, groups.contracted);
  Shape shape;
  append_sizes(shape, left, labels_a, groups.batch);
  append_sizes(shape, left, labels_a, groups.rows);
  append_sizes(shape, right, labels_b, groups.columns);

  const Tensor lhs = arrange(left, labels_a, groups.batch + groups.rows + groups.contracted);
  const Tensor rhs = arrange(right, labels_b, groups.batch + groups.contracted + groups.columns);
  const Tensor product = matmul(reshape(lhs, Shape{batch, m, k}), reshape(rhs, Shape{batch, k, n}));
  return arrange(reshape(product, shape), groups.batch + groups.rows + groups.columns, e.y);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
