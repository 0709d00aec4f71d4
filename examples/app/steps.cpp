// Makes textbook steps of the ops that a tape computes.
#include "app/steps.h"

#include <seppo/autograd/core/tape.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

namespace examples {
namespace {

using seppo::Tensor;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Numbers numbers_of(const Tensor& x) { return {x.rows(), x.cols(), {x.values().begin(), x.values().end()}}; }

std::shared_ptr<const Numbers> kept(const Tensor& x) {
  return x.defined() ? std::make_shared<const Numbers>(numbers_of(x)) : nullptr;
}

// "0.3 x 1.2 + 0.4 x -2"
std::string sum_text(std::span<const double> a, std::span<const double> b) {
  std::string text;
  for (std::size_t k = 0; k < a.size(); ++k)
    text += fmt::format("{}{} x {}", k > 0 ? " + " : "", short_number(a[k]), short_number(b[k]));
  return text;
}

// Of x W^T + b, from rows `first` and following of W.
Because product_text(std::span<const Tensor> inputs, std::size_t first = 0) {
  const auto x = kept(inputs[0]), weight = kept(inputs[1]);
  const auto bias = kept(inputs[2]);
  return [=](std::size_t i, std::size_t j) {
    const std::string sum = sum_text(x->row(i), weight->row(first + j));
    return bias ? fmt::format("{} + bias {}", sum, short_number(bias->values[first + j])) : sum;
  };
}

Numbers mapped(const Numbers& x, const std::function<double(std::size_t i, std::size_t j)>& f) {
  Numbers y = x;
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t j = 0; j < x.columns; ++j) y.values[i * x.columns + j] = f(i, j);
  return y;
}

std::string parent_of(const std::string& module) { return module.substr(0, module.rfind('.')); }
std::string last_of(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// "e^1.2 / (e^1.2 + e^-0.3)"
std::string share_text(std::span<const double> row, std::size_t j) {
  const auto power = [](double x) { return x == kMinusInfinity ? "0" : fmt::format("e^{}", short_number(x)); };
  std::string sum;
  for (const double x : row) sum += (sum.empty() ? "" : " + ") + power(x);
  return fmt::format("{} / ({})", power(row[j]), sum);
}

}  // namespace

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

Numbers Numbers::some_columns(std::size_t first, std::size_t count) const {
  Numbers some{rows, count, {}};
  for (std::size_t i = 0; i < rows; ++i) {
    const std::span<const double> part = row(i).subspan(first, count);
    some.values.insert(some.values.end(), part.begin(), part.end());
  }
  return some;
}

void StepRecorder::add(Step step) {
  if (options_.keeps_gradients && step.tensor.defined()) step.tensor.retain_grad();
  if (!options_.keeps_gradients) step.tensor = {};
  steps.push_back(std::move(step));
}

void StepRecorder::attention_weights(const seppo::Shape& shape, std::span<const seppo::real> weights) {
  heads_ = static_cast<std::size_t>(shape[1]);
  weights_.assign(weights.begin(), weights.end());
}

void StepRecorder::forward(const Tensor& output, std::span<const Tensor> inputs) {
  const seppo::Node& node = output.node();
  const std::string module = node.region ? *node.region : "", op = node.op;
  if (op == "linear") return linear(module, output, inputs);
  if (op == "attention") return attention(module, output);
  if (op == "add_norm" || op == "layer_norm" || op == "rms_norm") return norm(module, output, inputs);
  if (op == "add" || op == "add_dropout") return sum(output, inputs);
  if (op == "view") return;  // of a part of a stacked weight
  const std::string title = op == "embedding" ? "+ position" : op;
  add({module.ends_with(".up") ? parent_of(module) : module, title, numbers_of(output), {}, output});
}

void StepRecorder::linear(const std::string& module, const Tensor& y, std::span<const Tensor> inputs) {
  const std::string last = last_of(module);
  const Because because = product_text(inputs);
  if (last == "in_proj" || last.ends_with("_attn")) return input_projection(module, y, inputs);
  if (last == "out_proj") return add({parent_of(module), "output map", numbers_of(y), because, y});
  if (last == "output" || last == "embedding") return add({"output", "logits", numbers_of(y), because, y});
  if (last != "up" || options_.activation != "relu") return add({parent_of(module), last, numbers_of(y), because, y});
  const auto x = kept(inputs[0]), weight = kept(inputs[1]), bias = kept(inputs[2]);
  const auto up = std::make_shared<const Numbers>(mapped(numbers_of(y), [&](std::size_t i, std::size_t j) {
    return dot(x->row(i), weight->row(j)) + (bias ? bias->values[j] : 0);
  }));
  add({parent_of(module), last, *up, because});
  const auto relu_text = [up](std::size_t i, std::size_t j) { return "relu of " + short_number(up->at(i, j)); };
  add({parent_of(module), "relu", numbers_of(y), relu_text, y});
}

// Of self-attention Q, K and V in one product; of cross-attention Q, and then K and V.
void StepRecorder::input_projection(const std::string& module, const Tensor& y, std::span<const Tensor> inputs) {
  const bool is_self = module.ends_with("in_proj");
  const std::string box = is_self ? parent_of(module) : module;
  const Numbers all = numbers_of(y);
  const auto add_columns = [&](const char* title, std::size_t first, std::size_t count) {
    add({box, title, all.some_columns(first, count), product_text(inputs, first), y, first});
  };
  const bool has_query = is_self || steps.empty() || steps.back().box != box || steps.back().title != "Q";
  if (has_query && !is_self) return add_columns("Q", 0, all.columns);
  const std::size_t width = options_.query_columns > 0 ? options_.query_columns : inputs[0].cols();
  const std::size_t kv_first = is_self ? width : 0, kv = (all.columns - kv_first) / 2;
  if (is_self) add_columns("Q", 0, width);
  add_columns("K", kv_first, kv);
  add_columns("V", kv_first + kv, kv);
}

// The three steps before it are its Q, K and V.
void StepRecorder::attention(const std::string& module, const Tensor& y) {
  const std::size_t n = steps.size();
  const Step q = steps[n - 3], k = steps[n - 2], v = steps[n - 1];
  for (std::size_t h = 0; h < heads_; ++h) head(fmt::format("{} {}", module, h), q, k, v, h);
  const std::size_t width = y.cols() / heads_;
  add({module, "heads side by side", numbers_of(y),
       [=](std::size_t, std::size_t j) { return fmt::format("column {} of head {}", j % width, j / width); }, y});
}

void StepRecorder::head(const std::string& box, const Step& all_q, const Step& all_k, const Step& all_v,
                        std::size_t head) {
  const std::size_t width = all_q.numbers.columns / heads_;
  const std::size_t kv_heads = all_k.numbers.columns / width, kv_first = head * kv_heads / heads_ * width;
  const auto q = std::make_shared<const Numbers>(all_q.numbers.some_columns(head * width, width));
  const auto k = std::make_shared<const Numbers>(all_k.numbers.some_columns(kv_first, width));
  const auto v = std::make_shared<const Numbers>(all_v.numbers.some_columns(kv_first, width));
  const double root = std::sqrt(static_cast<double>(width));
  const Numbers shape{q->rows, k->rows, std::vector<double>(q->rows * k->rows)};
  const auto weights = std::make_shared<const Numbers>(mapped(
      shape, [&](std::size_t i, std::size_t j) { return weights_[(head * shape.rows + i) * shape.columns + j]; }));
  const auto scores = std::make_shared<const Numbers>(
      mapped(shape, [&](std::size_t i, std::size_t j) { return dot(q->row(i), k->row(j)); }));
  const auto divided = mapped(shape, [&](std::size_t i, std::size_t j) { return scores->at(i, j) / root; });
  const bool is_causal = box.starts_with("decoder") && box.find("self_attn") != box.npos;
  const auto is_masked = [=](std::size_t i, std::size_t j) { return is_causal && j > i; };
  const auto masked = std::make_shared<const Numbers>(
      mapped(shape, [&](std::size_t i, std::size_t j) { return is_masked(i, j) ? kMinusInfinity : divided.at(i, j); }));
  add({box, "Q Kᵀ", *scores, [=](std::size_t i, std::size_t j) { return sum_text(q->row(i), k->row(j)); }});
  add({box, "divided by √d", divided, [=](std::size_t i, std::size_t j) {
         return fmt::format("{} / {}", short_number(scores->at(i, j)), short_number(root));
       }});
  add({box, "masked", *masked, [=](std::size_t i, std::size_t j) {
         return is_masked(i, j) ? "a later position, which may not be seen" : "the same, as it may be seen";
       }});
  add({box, "softmax", *weights, [=](std::size_t i, std::size_t j) { return share_text(masked->row(i), j); }});
  const Numbers mixture_shape{q->rows, width, std::vector<double>(q->rows * width)};
  const auto column = [=](std::size_t j) { return v->some_columns(j, 1).values; };
  add({box, "mixture of V",
       mapped(mixture_shape, [&](std::size_t i, std::size_t j) { return dot(weights->row(i), column(j)); }),
       [=](std::size_t i, std::size_t j) { return sum_text(weights->row(i), column(j)); }});
}

// After a sublayer that began with its norm, whose name the sum has.
void StepRecorder::sum(const Tensor& y, std::span<const Tensor> inputs) {
  const auto is_norm = [](const Step& step) { return step.title == "normalised"; };
  const auto last = std::find_if(steps.rbegin(), steps.rend(), is_norm);
  const auto x = kept(inputs[0]), z = kept(inputs[1]);
  const auto because = [=](std::size_t i, std::size_t j) {
    return fmt::format("{} + {}", short_number(x->at(i, j)), short_number(z->at(i, j)));
  };
  add({last == steps.rend() ? "" : last->box, "added", numbers_of(y), because, y});
}

void StepRecorder::norm(const std::string& module, const Tensor& y, std::span<const Tensor> inputs) {
  const bool adds = std::string_view(y.node().op) == "add_norm";
  const auto x = kept(inputs[0]), gain = kept(inputs[1]);
  auto before = x;
  if (adds) {
    const auto z = kept(inputs[2]);
    before = std::make_shared<const Numbers>(
        mapped(*x, [&](std::size_t i, std::size_t j) { return x->at(i, j) + z->at(i, j); }));
    add({module, "added", *before, [=](std::size_t i, std::size_t j) {
           return fmt::format("{} + {}", short_number(x->at(i, j)), short_number(z->at(i, j)));
         }});
  }
  add({module, "normalised", numbers_of(y),
       [=](std::size_t i, std::size_t j) {
         return fmt::format("{}, normalised within its row, x gain {}", short_number(before->at(i, j)),
                            short_number(gain->values[j]));
       },
       y});
}

Step probability_step(const Step& logits) {
  const auto scores = std::make_shared<const Numbers>(logits.numbers);
  const auto power = [&](std::size_t i, std::size_t j) {
    return std::exp(scores->at(i, j) - std::ranges::max(scores->row(i)));
  };
  const Numbers powers = mapped(*scores, power);
  const auto share = [&](std::size_t i, std::size_t j) {
    const std::span<const double> row = powers.row(i);
    return powers.at(i, j) / std::accumulate(row.begin(), row.end(), 0.0);
  };
  return {"output", "probabilities", mapped(powers, share),
          [=](std::size_t i, std::size_t j) { return share_text(scores->row(i), j); }};
}

Numbers gradients_of(const Step& step) {
  if (!step.tensor.defined()) return {};
  const std::span<const seppo::real> gradient = step.tensor.grad();
  const Numbers all{step.tensor.rows(), step.tensor.cols(), {gradient.begin(), gradient.end()}};
  return all.some_columns(step.first, step.numbers.columns);
}

}  // namespace examples
