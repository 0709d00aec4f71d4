// The cross-entropy of a linear layer's scores, some rows at a time: where gradients are needed, the scores of these
// rows turn into their own gradient, and that into the gradients of x and weight of a loss whose cotangent is 1.
#include "../blas/multiply.h"
#include "../core/arena.h"
#include "op.h"
#include "weights.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

void check_operands(const Tensor& x, const Tensor& weight, List<int> targets, const LinearCrossEntropyOptions& o) {
  check(weight.rank() == 2 && x.rank() >= 1 && x.size(-1) == weight.size(1) && weight.size(0) > 0,
        "linear_cross_entropy: needs x [..., in] and weight [classes, in]: x ", x, ", weight ", weight);
  check(targets.size() == x.rows(), "linear_cross_entropy: ", targets.size(), " targets for the ", x.rows(),
        " rows of x ", x);
  check<ArgumentError>(o.rows_at_once >= 0, "linear_cross_entropy: rows_at_once ", o.rows_at_once, " is negative");
  for (std::size_t i = 0; i < targets.size(); ++i)
    check<IndexError>(targets[i] == o.ignore_index || (targets[i] >= 0 && targets[i] < weight.size(0)),
                      "linear_cross_entropy: target ", targets[i], " of row ", i, " is not in 0..", weight.size(0) - 1,
                      ", the classes of weight ", weight);
}

// The rows of a piece: pieces are equal but for the last, and no larger than asked for.
std::size_t rows_of_piece(std::size_t rows, std::size_t classes, int asked) {
  constexpr std::size_t kScores = std::size_t{1} << 23;
  constexpr std::size_t kFewest = 64;  // enough for products to run at their speed
  const std::size_t most = asked > 0 ? static_cast<std::size_t>(asked) : std::max(kFewest, kScores / classes);
  const std::size_t pieces = (rows + most - 1) / most;
  return pieces == 0 ? 1 : (rows + pieces - 1) / pieces;
}

struct RowLoss {
  double nats;
  bool is_correct;
};

// The loss of one row of scores.
RowLoss loss_of(const real* scores, const kernels::LogSumExp& sum, int target) {
  const real score = scores[target];
  return {.nats = double{sum.log_sum} - (double{score} - double{sum.max}),
          .is_correct = score == sum.max && std::find(scores, scores + target, score) == scores + target};
}

struct Totals {
  double nats = 0;
  double correct = 0;
};

// Rows to be scored, and the gradients for the cotangent 1 that are wanted.
struct Rows {
  MatrixView x;
  Tensor weight;
  List<int> targets;
  int ignored;
  real* dx;  // null: not wanted
  real* dw;

  bool differentiates() const { return dx || dw; }
  // The loss of a row of this target; its scores become their gradient if one is wanted.
  RowLoss loss(real* scores, int target) const;
  // Adds rows first .. first + count - 1.
  void add(Totals& totals, std::size_t first, std::size_t count) const;
};

RowLoss Rows::loss(real* scores, int target) const {
  const std::size_t classes = weight.rows();
  if (target == ignored) {
    if (differentiates()) std::fill_n(scores, classes, real{0});
    return {.nats = 0, .is_correct = false};
  }
  const kernels::LogSumExp sum = kernels::log_sum_exp(scores, classes);
  const RowLoss loss = loss_of(scores, sum, target);
  if (differentiates()) {
    kernels::log_sum_exp_backward(scores, 0, scores, sum, 0, 1, classes);
    scores[target] -= 1;
  }
  return loss;
}

void Rows::add(Totals& totals, std::size_t first, std::size_t count) const {
  const std::size_t classes = weight.rows();
  const std::size_t in = weight.cols();
  const MatrixView own = x.block(first, 0, count, in);
  const RecycledArray<RowLoss> losses(tape().arena(), count);
  const RecycledArray scores(tape().arena(), count * classes);
  multiply_by_weight({scores.data(), count, classes}, own, weight, nullptr);
  parallel_range(0, count, kPiece / classes + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) losses.data()[i] = loss(scores.data() + i * classes, targets[first + i]);
  });
  for (std::size_t i = 0; i < count; ++i) {
    totals.nats += losses.data()[i].nats;
    totals.correct += losses.data()[i].is_correct ? 1 : 0;
  }
  const MatrixView slopes(scores.data(), count, classes);
  if (dx) multiply({dx + first * in, count, in}, slopes, {weight.data(), classes, in});
  if (dw) multiply({dw, classes, in}, transposed(slopes), own, first == 0 ? Accumulate::no : Accumulate::yes);
}

// Memory for the gradient of x, which lives until clear(); null if none is required.
real* unit_gradient(const Tensor& x) {
  if (!tape().records() || !x.requires_grad()) return nullptr;
  return tape().allocate<real>(x.numel());
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, List<int> targets,
                            const LinearCrossEntropyOptions& options) {
  check_operands(x, weight, targets, options);
  const std::size_t rows = x.rows();
  const std::size_t in = weight.cols();
  const std::size_t classes = weight.rows();
  const std::size_t piece = rows_of_piece(rows, classes, options.rows_at_once);
  real* const dx = unit_gradient(x);
  real* const dw = unit_gradient(weight);
  if (dw && rows == 0) std::fill_n(dw, weight.numel(), real{0});
  const Rows all{{x.data(), rows, in}, weight, targets, options.ignore_index, dx, dw};
  const Tensor y = tape().create({});
  Totals totals;
  for (std::size_t first = 0; first < rows; first += piece) all.add(totals, first, std::min(piece, rows - first));
  y.data()[0] = static_cast<real>(totals.nats);
  if (options.correct) *options.correct = totals.correct;
  record("linear_cross_entropy", y, {x, weight}, [=] {
    const real dy = grad_of(y)[0];
    if (dx) add_grad(x, dx, dy);
    if (dw) add_grad(weight, dw, dy);
  });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
