// Losses; part of the catalogue, ops.h.
#pragma once

#include "../core/list.h"
#include "../core/tensor.h"

#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {

enum class Reduction { mean, sum, none };
struct CrossEntropyOptions {
  double label_smoothing = 0;                          // this share of the target is spread evenly over all classes
  int ignore_index = std::numeric_limits<int>::min();  // rows with this target do not count
  Reduction reduction = Reduction::mean;               // none: a loss for each row, [...]
  Tensor weight = {};                                  // [classes]: the weight of each; it gets no gradient
  int axis = -1;                                       // of the classes; 1 for [batch, classes, ...]
};
// -log softmax(logits)[target], over rows: logits [..., classes], one target for each row -> scalar. The rows are those
// along the axis of the classes, in the order of the other axes, which are also the shape of unreduced losses.
// The mean is over the rows that count, weighted by their targets' weights; if no row counts the loss is 0.
Tensor cross_entropy(const Tensor& logits, List<int> targets, const CrossEntropyOptions& options = {});

// The same for targets that are probabilities of the classes, in the shape of the logits: -sum_j weight_j p_j log
// softmax(logits)_j. The mean is over all rows; ignore_index has no meaning.
Tensor cross_entropy(const Tensor& logits, const Tensor& probabilities, const CrossEntropyOptions& options = {});

struct LinearCrossEntropyOptions {
  int ignore_index = std::numeric_limits<int>::min();  // rows with this target do not count
  int rows_at_once = 0;                                // whose scores are in memory together; 0: those of 64 MB
  double* correct = nullptr;  // is set to how many rows that count have their largest score at their target
};
// cross_entropy(linear(x, weight), targets, {.reduction = Reduction::sum}) without all scores in memory, for many
// classes: x [..., in], weight [classes, in], one target for each row of x -> scalar. The rows are scored in pieces;
// gradients, if they are needed, are computed along with the loss, from the same scores (Hsu et al. 2024, "Liger
// Kernel"), and take the memory of x and weight once more. Of equal scores, the largest is the one of the lowest class.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, List<int> targets,
                            const LinearCrossEntropyOptions& options = {});

struct NllOptions {
  int ignore_index = std::numeric_limits<int>::min();
  Reduction reduction = Reduction::mean;
  Tensor weight = {};
  int axis = -1;
};
// -x[target], over rows of x [..., classes], as log_softmax gives them; otherwise like cross_entropy.
Tensor nll_loss(const Tensor& log_probabilities, List<int> targets, const NllOptions& options = {});

// (x - target)^2
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
// With d = |x - target|: d^2 / 2 up to delta, then delta (d - delta / 2) (Huber 1964).
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1, Reduction reduction = Reduction::mean);

struct BinaryCrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};      // of each element, and of its part -t log sigmoid(x): broadcast to the logits; they get no
  Tensor pos_weight = {};  // gradient
};
// -t log sigmoid(x) - (1 - t) log(1 - sigmoid(x)) for targets t in [0, 1]; infinite only where an infinite logit is
// wrong: it is 0 for a logit of -inf and the target 0, or inf and 1.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options = {});

// a.b / (|a| |b|) along an axis, with broadcasting; norms below eps count as eps.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis = -1, double eps = 1e-8);

}  // namespace SEPPO_ABI
}  // namespace seppo
