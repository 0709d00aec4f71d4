// Losses.
#include "../kernels/kernels.h"
#include "../ops.h"

#include <algorithm>

namespace seppo::inline SEPPO_ABI {

namespace {

// Checks one target for each row of x [..., classes]; returns what each row that counts contributes to the loss.
double check_targets(const char* op, const char* role, const Tensor& x, std::span<const int> targets, int ignored,
                     Reduction reduction) {
  check(x.rank() >= 1 && x.size(-1) > 0, op, ": needs ", role, " [..., classes], got ", x);
  check(targets.size() == x.rows(), op, ": ", targets.size(), " targets for the ", x.rows(), " rows of ", role, " ", x);
  std::size_t count = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    check<IndexError>(targets[i] >= 0 && targets[i] < x.size(-1), op, ": target ", targets[i], " of row ", i,
                      " is not in 0..", x.size(-1) - 1, ", the classes of ", role, " ", x);
    ++count;
  }
  return reduction == Reduction::sum ? 1 : count == 0 ? 0 : 1 / static_cast<double>(count);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, List<int> targets, const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  const int ignored = options.ignore_index;
  const double weight = check_targets("cross_entropy", "logits", logits, targets, ignored, options.reduction);
  check<ArgumentError>(smoothing >= 0 && smoothing <= 1, "cross_entropy: label_smoothing ", smoothing,
                       " is not in [0, 1]");
  const std::size_t classes = logits.cols();
  Tape& t = tape();
  const auto kept_targets = t.keep(targets);
  auto* const sums = t.allocate<kernels::LogSumExp>(targets.size());
  Tensor y = full({}, 0);

  // (1 - smoothing) -log p[target] + smoothing mean_j -log p[j], with -log p[j] = log_sum - (x_j - max)
  double loss = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    const real* const x = logits.data() + i * classes;
    const kernels::LogSumExp& sum = sums[i] = kernels::log_sum_exp(x, classes);
    loss += double{sum.log_sum} - (1 - smoothing) * (double{x[targets[i]]} - double{sum.max});
    if (smoothing > 0) loss -= smoothing * sum.below / static_cast<double>(classes);
  }
  *y.data() = static_cast<real>(loss * weight);
  record("cross_entropy", y, {logits}, [=] {
    const auto [dx, beta] = grad_target(logits);
    const real scale = *grad_of(y) * static_cast<real>(weight);
    const real uniform = static_cast<real>(smoothing / static_cast<double>(classes));
    for (std::size_t i = 0; i < kept_targets.size(); ++i) {
      real* const row = dx + i * classes;
      if (kept_targets[i] != ignored) {
        kernels::log_sum_exp_backward(row, beta, logits.data() + i * classes, sums[i], uniform, scale, classes);
        row[kept_targets[i]] -= scale * static_cast<real>(1 - smoothing);
      } else if (beta == 0) {
        std::fill_n(row, classes, real{0});
      }
    }
  });
  return y;
}

Tensor nll_loss(const Tensor& log_probabilities, List<int> targets, const NllOptions& options) {
  const Tensor& x = log_probabilities;
  const int ignored = options.ignore_index;
  const double weight = check_targets("nll_loss", "log_probabilities", x, targets, ignored, options.reduction);
  // Calls f(the element of x that row i's target names) for each row that counts.
  const auto each = [=, kept = tape().keep(targets)](const auto& f) {
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i] != ignored) f(i * x.cols() + static_cast<std::size_t>(kept[i]));
  };
  Tensor y = full({}, 0);
  double loss = 0;
  each([&](std::size_t i) { loss -= double{x.data()[i]}; });
  *y.data() = static_cast<real>(loss * weight);
  record("nll_loss", y, {x}, [=] {
    const real scale = *grad_of(y) * static_cast<real>(weight);
    each([=, dx = grad_of(x)](std::size_t i) { dx[i] -= scale; });
  });
  return y;
}

namespace {

Tensor reduce(const Tensor& x, Reduction reduction) { return reduction == Reduction::sum ? sum(x) : mean(x); }

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  check(x.shape() == target.shape(), "mse_loss: x ", x, " and target ", target, " differ in shape");
  return reduce(square(x - target), reduction);
}

// -t log s(x) - (1 - t) log(1 - s(x)) = softplus(x) - x t, s being the sigmoid
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target, Reduction reduction) {
  check(logits.shape() == target.shape(), "binary_cross_entropy_with_logits: logits ", logits, " and target ", target,
        " differ in shape");
  return reduce(softplus(logits) - logits * target, reduction);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis, double eps) {
  check<ArgumentError>(eps > 0, "cosine_similarity: eps ", eps, " is not positive");
  const auto norm = [&](const Tensor& x) {
    return sqrt(clamp(sum(square(x), axis), static_cast<real>(eps * eps), std::numeric_limits<real>::infinity()));
  };
  return sum(a * b, axis) / (norm(a) * norm(b));
}

}  // namespace seppo::inline SEPPO_ABI
