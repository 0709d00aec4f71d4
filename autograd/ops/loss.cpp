// Losses.
#include "../kernels/kernels.h"
#include "../ops.h"

#include <algorithm>

namespace seppo::inline SEPPO_ABI {

Tensor cross_entropy(const Tensor& logits, std::span<const int> targets, const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  check(logits.rank() >= 1 && logits.size(-1) > 0, "cross_entropy: needs logits [..., classes], got ", logits);
  check(targets.size() == logits.rows(), "cross_entropy: ", targets.size(), " targets for the ", logits.rows(),
        " rows of logits ", logits);
  check<ArgumentError>(smoothing >= 0 && smoothing <= 1, "cross_entropy: label_smoothing ", smoothing,
                       " is not in [0, 1]");
  const std::size_t classes = logits.cols();
  const int ignored = options.ignore_index;
  Tape& t = tape();
  const auto kept_targets = t.keep(targets);
  real* const log_sum_exp = t.allocate<real>(targets.size());

  // (1 - smoothing) -log p[target] + smoothing mean_j -log p[j], with -log p[j] = log_sum_exp - x_j
  double loss = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    check<IndexError>(targets[i] >= 0 && targets[i] < logits.size(-1), "cross_entropy: target ", targets[i], " of row ",
                      i, " is not in 0..", logits.size(-1) - 1, ", the classes of logits ", logits);
    const real* const x = logits.data() + i * classes;
    log_sum_exp[i] = kernels::log_sum_exp(x, classes);
    loss += static_cast<double>(log_sum_exp[i]) - (1 - smoothing) * static_cast<double>(x[targets[i]]);
    if (smoothing > 0) loss -= smoothing * kernels::sum(x, classes) / static_cast<double>(classes);
    ++count;
  }
  const double weight = options.reduction == Reduction::sum ? 1 : count == 0 ? 0 : 1 / static_cast<double>(count);
  Tensor y = t.create({});
  *y.data() = static_cast<real>(loss * weight);

  record("cross_entropy", y, {logits}, [=] {
    const auto [dx, beta] = grad_target(logits);
    const real scale = *grad_of(y) * static_cast<real>(weight);
    for (std::size_t i = 0; i < kept_targets.size(); ++i) {
      real* const row = dx + i * classes;
      if (kept_targets[i] != ignored)
        kernels::cross_entropy_row_backward(row, beta, logits.data() + i * classes, log_sum_exp[i],
                                            static_cast<std::size_t>(kept_targets[i]), static_cast<real>(smoothing),
                                            scale, classes);
      else if (beta == 0)
        std::fill_n(row, classes, real{0});
    }
  });
  return y;
}

Tensor nll_loss(const Tensor& log_probabilities, std::span<const int> targets, const NllOptions& options) {
  const Tensor& x = log_probabilities;
  check(x.rank() >= 1 && x.size(-1) > 0, "nll_loss: needs log_probabilities [..., classes], got ", x);
  check(targets.size() == x.rows(), "nll_loss: ", targets.size(), " targets for the ", x.rows(),
        " rows of log_probabilities ", x);
  const std::size_t classes = x.cols();
  const int ignored = options.ignore_index;
  const auto kept_targets = tape().keep(targets);
  double loss = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    check<IndexError>(targets[i] >= 0 && targets[i] < x.size(-1), "nll_loss: target ", targets[i], " of row ", i,
                      " is not in 0..", x.size(-1) - 1, ", the classes of log_probabilities ", x);
    loss -= static_cast<double>(x.data()[i * classes + static_cast<std::size_t>(targets[i])]);
    ++count;
  }
  const double weight = options.reduction == Reduction::sum ? 1 : count == 0 ? 0 : 1 / static_cast<double>(count);
  Tensor y = tape().create({});
  *y.data() = static_cast<real>(loss * weight);
  record("nll_loss", y, {x}, [=] {
    real* const dx = grad_of(x);
    for (std::size_t i = 0; i < kept_targets.size(); ++i)
      if (kept_targets[i] != ignored)
        dx[i * classes + static_cast<std::size_t>(kept_targets[i])] -= *grad_of(y) * static_cast<real>(weight);
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
    return sqrt(
        clamp(sum(square(x), axis), static_cast<real>(eps * eps), std::numeric_limits<real>::infinity()));
  };
  return sum(a * b, axis) / (norm(a) * norm(b));
}

}  // namespace seppo::inline SEPPO_ABI
