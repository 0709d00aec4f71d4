// Losses.
#include "op.h"
#include "walk.h"

#include <algorithm>
#include <numeric>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

Tensor reduce(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::none:
      return losses;
    case Reduction::sum:
      return sum(losses);
    case Reduction::mean:
      return mean(losses);
  }
  return losses;
}

// Reduces losses that are already weighted: the mean divides by the sum of the weights, or is 0 if that is 0.
Tensor reduce(const Tensor& losses, Reduction reduction, const Tensor& weights) {
  if (reduction != Reduction::mean) return reduce(losses, reduction);
  const auto total = static_cast<real>(sum(weights).item());
  const Tensor loss = scale(sum(losses), total == 0 ? 0 : 1 / total);
  loss.node().op = "mean";  // a Trainer, which needs sums, refuses it
  return loss;
}

void check_classes(const char* op, const char* role, const Tensor& x, const Tensor& weight) {
  check(x.rank() >= 1 && x.size(-1) > 0, op, ": needs ", role, " [..., classes], got ", x);
  check(!weight.defined() || weight.shape() == Shape{x.size(-1)}, op, ": weight must be [", x.size(-1),
        "], one for each class of ", role, " ", x);
}

// x with the axis of the classes last, and the others in their order.
Tensor classes_last(const char* op, const char* role, const Tensor& x, int axis) {
  check(x.rank() >= 1, op, ": needs ", role, " [..., classes], got ", x);
  const int at = x.shape().axis(axis, op);
  if (at == x.rank() - 1) return x;
  int axes[Shape::kMaxRank];
  std::iota(axes, axes + x.rank(), 0);
  std::rotate(axes + at, axes + at + 1, axes + x.rank());
  return permute(x, {axes, static_cast<std::size_t>(x.rank())});
}

// Checks that each row of x [..., classes] has one target. Returns the weights of the rows [...]: those of the targets'
// classes, or 1; 0 for ignored rows.
Tensor row_weights(const char* op, const char* role, const Tensor& x, List<int> targets, int ignored,
                   const Tensor& weight) {
  check_classes(op, role, x, weight);
  check(targets.size() == x.rows(), op, ": ", targets.size(), " targets for the ", x.rows(), " rows of ", role, " ", x);
  Tensor weights = zeros(Shape(x.shape().sizes().first(static_cast<std::size_t>(x.rank() - 1))));
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    check<IndexError>(targets[i] >= 0 && targets[i] < x.size(-1), op, ": target ", targets[i], " of row ", i,
                      " is not in 0..", x.size(-1) - 1, ", the classes of ", role, " ", x);
    weights.data()[i] = weight.defined() ? weight.data()[targets[i]] : 1;
  }
  return weights;
}

// 1 for each row, but 0 for ignored ones.
Tensor counted(List<int> targets, int ignored, const Shape& rows) {
  Tensor y = zeros(rows);
  std::ranges::transform(targets, y.data(), [=](int target) { return target == ignored ? real{0} : real{1}; });
  return y;
}

// For each row, (1 - smoothing) -log p[target] + smoothing mean_j -log p[j], where p = softmax(logits); 0 for rows of
// weight 0.
Tensor row_losses(const Tensor& logits, List<int> target_ids, const Tensor& weights, double smoothing) {
  const std::size_t classes = logits.cols();
  const std::size_t piece = kPiece / classes + 1;  // rows
  const double uniform = smoothing / static_cast<double>(classes);
  const auto targets = tape().keep<int>(target_ids);
  auto* const sums = tape().allocate<kernels::LogSumExp>(targets.size());
  Tensor y = zeros(weights.shape());
  parallel_range(0, targets.size(), piece, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      if (weights.data()[i] == 0) continue;
      const real* const x = logits.data() + i * classes;  // -log p[j] = log_sum - (x_j - max)
      const kernels::LogSumExp sum = kernels::log_sum_exp(x, classes);
      double loss = double{sum.log_sum} - (1 - smoothing) * (double{x[targets[i]]} - double{sum.max});
      if (smoothing > 0) loss -= uniform * sum.below;
      y.data()[i] = static_cast<real>(loss);
      sums[i] = sum;
    }
  });
  record("cross_entropy", y, {logits}, [=] {
    const GradTarget dx = grad_target(logits);
    const real* const dy = grad_of(y);
    parallel_range(0, targets.size(), piece, [=](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        real* const row = dx.grad + i * classes;
        if (weights.data()[i] != 0) {
          kernels::log_sum_exp_backward(row, dx.beta, logits.data() + i * classes, sums[i], static_cast<real>(uniform),
                                        dy[i], classes);
          row[targets[i]] -= dy[i] * static_cast<real>(1 - smoothing);
        } else if (dx.beta == 0) {
          std::fill_n(row, classes, real{0});
        }
      }
    });
  });
  return y;
}

// -sum_j p_j log softmax(logits)_j of each row
Tensor soft_losses(const Tensor& logits, const Tensor& p) { return neg(sum(log_softmax(logits) * p, -1)); }

void check_smoothing(double smoothing) {
  check<ArgumentError>(smoothing >= 0 && smoothing <= 1, "cross_entropy: label_smoothing ", smoothing,
                       " is not in [0, 1]");
}

Tensor difference(const char* op, const Tensor& x, const Tensor& target) {
  check(x.shape() == target.shape(), op, ": x ", x, " and target ", target, " differ in shape");
  return x - target;
}

}  // namespace

Tensor cross_entropy(const Tensor& x, List<int> targets, const CrossEntropyOptions& o) {
  const Tensor logits = classes_last("cross_entropy", "logits", x, o.axis);
  const Tensor weights = row_weights("cross_entropy", "logits", logits, targets, o.ignore_index, o.weight);
  check_smoothing(o.label_smoothing);
  if (o.label_smoothing == 0 || !o.weight.defined())
    return reduce(row_losses(logits, targets, weights, o.label_smoothing) * weights, o.reduction, weights);
  // The smoothing spread over the classes is weighted class by class.
  const real share = static_cast<real>(o.label_smoothing);
  const real uniform = share / static_cast<real>(logits.size(-1));
  const Tensor by_class = soft_losses(logits, detach(o.weight) * uniform);
  const Tensor spread = where(counted(targets, o.ignore_index, weights.shape()), by_class, 0);
  return reduce(row_losses(logits, targets, weights, 0) * weights * (1 - share) + spread, o.reduction, weights);
}

Tensor cross_entropy(const Tensor& x, const Tensor& given, const CrossEntropyOptions& o) {
  check(x.shape() == given.shape(), "cross_entropy: logits ", x, " and probabilities ", given, " differ in shape");
  const Tensor logits = classes_last("cross_entropy", "logits", x, o.axis);
  const Tensor probabilities = classes_last("cross_entropy", "probabilities", given, o.axis);
  check_classes("cross_entropy", "logits", logits, o.weight);
  check_smoothing(o.label_smoothing);
  const real share = static_cast<real>(o.label_smoothing);
  Tensor p = scale(probabilities, 1 - share) + share / static_cast<real>(logits.size(-1));
  if (o.weight.defined()) p *= detach(o.weight);
  return reduce(soft_losses(logits, p), o.reduction);
}

Tensor nll_loss(const Tensor& log_probabilities, List<int> targets, const NllOptions& o) {
  const Tensor x = classes_last("nll_loss", "log_probabilities", log_probabilities, o.axis);
  const Tensor weights = row_weights("nll_loss", "log_probabilities", x, targets, o.ignore_index, o.weight);
  std::vector<int> ids(targets.begin(), targets.end());
  std::replace(ids.begin(), ids.end(), o.ignore_index, 0);
  const int rows = static_cast<int>(ids.size());
  const Tensor picked = gather(reshape(x, {rows, x.size(-1)}), 1, {{rows, 1}, ids});
  return reduce(where(weights, neg(reshape(picked, weights.shape())), 0) * weights, o.reduction, weights);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return reduce(square(difference("mse_loss", x, target)), reduction);
}

// With c = min(|d|, delta): c (|d| - c / 2), whose slope is c: none through c, where 0 times an infinite |d|
// would be NaN.
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, Reduction reduction) {
  check<ArgumentError>(delta > 0, "huber_loss: delta ", delta, " is not positive");
  const Tensor d = abs(difference("huber_loss", x, target));
  const Tensor c = detach(minimum(d, static_cast<real>(delta)));
  return reduce(c * (d - scale(c, real{0.5})), reduction);
}

namespace {

// share * loss of equal shapes, where no share of an infinite loss is 0.
Tensor share_of(const Tensor& share, const Tensor& loss) {
  Tensor y = tape().create(loss.shape());
  for (std::size_t i = 0; i < y.numel(); ++i) y.data()[i] = share.data()[i] == 0 ? 0 : share.data()[i] * loss.data()[i];
  record("binary_cross_entropy", y, {share, loss}, [=] {
    real* const dshare = grad_if_required(share);
    real* const dloss = grad_if_required(loss);
    const real* const dy = grad_of(y);
    for (std::size_t i = 0; i < y.numel(); ++i) {
      if (dshare) dshare[i] += dy[i] * loss.data()[i];
      if (dloss) dloss[i] += dy[i] * share.data()[i];
    }
  });
  return y;
}

}  // namespace

// -log s(x) = softplus(-x), s being the sigmoid, and -log(1 - s(x)) = softplus(x)
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options) {
  const char* const op = "binary_cross_entropy_with_logits";
  check(logits.shape() == target.shape(), op, ": logits ", logits, " and target ", target, " differ in shape");
  const Tensor positive = options.pos_weight.defined() ? detach(options.pos_weight) * target : target;
  check(positive.shape() == logits.shape(), op, ": pos_weight ", options.pos_weight, " is larger than logits ", logits);
  Tensor loss = share_of(positive, softplus(neg(logits))) + share_of(1.0 - target, softplus(logits));
  if (options.weight.defined()) loss *= detach(options.weight);
  check(loss.shape() == logits.shape(), op, ": weight ", options.weight, " is larger than logits ", logits);
  return reduce(loss, options.reduction);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis, double eps) {
  check<ArgumentError>(eps > 0, "cosine_similarity: eps ", eps, " is not positive");
  const Shape shape = broadcast_shape("cosine_similarity", {{"lhs", a}, {"rhs", b}});
  const auto unit = [&](const Tensor& x) {  // divided first: the product of norms may overflow, and eps underflow
    const Tensor all = x.shape() == shape ? x : expand(x, shape);
    return all / maximum(norm(all, axis, true), std::max(eps, double{std::numeric_limits<real>::min()}));
  };
  return sum(unit(a) * unit(b), axis);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
