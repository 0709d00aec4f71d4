// Step by step: what a Transformer computes for one sequence. Each step is a matrix, and each of its numbers can tell
// the sum that made it.
//
//   StepRecorder recorder({.activation = "relu"});
//   {
//     const seppo::Observe scope(recorder);
//     model.transformer.logits(source, target);
//   }
//   for (const Step& step : recorder.steps) ...    // "encoder.0.self_attn", "Q"; ...
//
// The steps are those of the page (page/network.js), under the same names. What an op computes is taken from its
// output; the scores, which attention keeps to itself, are computed here from its inputs, in double precision.
#pragma once

#include <seppo/autograd/core/observer.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace examples {

// A matrix of its own, row by row.
struct Numbers {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values = {};

  double at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
  std::span<const double> row(std::size_t i) const { return std::span(values).subspan(i * columns, columns); }
  Numbers some_columns(std::size_t first, std::size_t count) const;
};

using Because = std::function<std::string(std::size_t row, std::size_t column)>;

struct Step {
  std::string box;    // the module, "encoder.0.self_attn", or one of its heads, "encoder.0.self_attn 2"
  std::string title;  // "Q", "softmax", "normalised" ...
  Numbers numbers;
  Because because = {};       // "0.3 x 1.2 + ... + bias 0.1"
  seppo::Tensor tensor = {};  // of which these are columns, if an op computed them
  std::size_t first = 0;      // of these columns
};

struct StepOptions {
  std::string activation = {};    // of the feed-forward networks; "relu" is a part of the op of their first map
  std::size_t query_columns = 0;  // of all heads; 0: as many as the inputs have
  bool keeps_gradients = false;   // tensors keep what backward computes: gradients_of() then gives it
};

class StepRecorder : public seppo::Observer {
 public:
  explicit StepRecorder(const StepOptions& options) : options_(options) {}

  bool wants_attention_weights() const override { return true; }
  void attention_weights(const seppo::Shape& shape, std::span<const seppo::real> weights) override;
  void forward(const seppo::Tensor& output, std::span<const seppo::Tensor> inputs) override;

  std::vector<Step> steps;

 private:
  void linear(const std::string& module, const seppo::Tensor& y, std::span<const seppo::Tensor> inputs);
  void input_projection(const std::string& module, const seppo::Tensor& y, std::span<const seppo::Tensor> inputs);
  void attention(const std::string& module, const seppo::Tensor& y);
  void head(const std::string& box, const Step& q, const Step& k, const Step& v, std::size_t head);
  void sum(const seppo::Tensor& y, std::span<const seppo::Tensor> inputs);
  void norm(const std::string& module, const seppo::Tensor& y, std::span<const seppo::Tensor> inputs);
  void add(Step step);

  StepOptions options_;
  std::vector<double> weights_;  // of the attention that is being computed
  std::size_t heads_ = 0;
};

// The gradient of a step's numbers, after backward; empty for steps that no op computed.
Numbers gradients_of(const Step& step);

// Softmax of the scores, as a step.
Step probability_step(const Step& logits);

double dot(std::span<const double> a, std::span<const double> b);

// A number in three digits, as steps are told: "-0.41", "1.2e-05", "-inf".
std::string short_number(double value);

// A step for a terminal of 80 columns: its name, the first columns (or all), and the sum behind its first number.
struct StepLabels {
  std::vector<std::string> rows, columns;  // may be empty: numbers from 0
};
std::string step_text(const Step& step, const StepLabels& labels, bool shows_all);
// A matrix without the rest.
std::string matrix_text(const Numbers& numbers, const StepLabels& labels, bool shows_all);

}  // namespace examples
