// blocks_lab: shows what each part of a Transformer block is for, by switching it off and printing what breaks.
#include "app/command_line.h"
#include "app/random_tensor.h"

#include <seppo/models/transformer.h>
#include <seppo/nn/modules/batch_norm.h>
#include <seppo/nn/modules/feed_forward.h>
#include <seppo/nn/modules/layer_norm.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

namespace blocks_lab {
namespace {

using examples::random_tensor;
using seppo::Mask;
using seppo::real;
using seppo::Shape;
using seppo::Tensor;

double norm(std::span<const real> values) {
  double squares = 0;
  for (const real v : values) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}

// The median of the rows' norms.
double median_row(std::span<const real> values, std::size_t columns) {
  std::vector<double> norms;
  for (std::size_t at = 0; at < values.size(); at += columns) norms.push_back(norm(values.subspan(at, columns)));
  std::nth_element(norms.begin(), norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2), norms.end());
  return norms[norms.size() / 2];
}

double number(const Tensor& x) { return x.item(); }

void print_rows(const Tensor& x) {
  for (std::size_t i = 0; i < x.rows(); ++i) {
    std::cout << "   ";
    for (std::size_t j = 0; j < x.cols(); ++j) std::cout << fmt::format(" {:5.2f}", x.values()[i * x.cols() + j]);
    std::cout << "\n";
  }
}

// Scores q.k have standard deviation sqrt(d): unless they are divided by it, the softmax of wide heads saturates, and
// hardly any gradient flows back through it.
void scale_of_scores() {
  std::cout
      << "1. Dividing by sqrt(d): 64 queries and keys of N(0, 1); gradient of the softmax's input, the median row\n"
         "      d   deviation of scores   largest weight   gradient     undivided: largest weight   gradient\n";
  for (const int d : {4, 16, 64, 256, 1024}) {
    double largest[2], gradient[2], deviation = 0;
    for (const bool divided : {true, false}) {
      seppo::tape().clear();
      const Tensor q = random_tensor({64, d}, 1), k = random_tensor({64, d}, 2), cotangent = random_tensor({64, 64}, 3);
      const Tensor scores = matmul(q, transpose(k));
      deviation = std::sqrt(number(var(scores)));
      const Tensor logits = divided ? scale(scores, 1 / std::sqrt(static_cast<real>(d))) : scores;
      const Tensor weights = softmax(logits.retain_grad());
      seppo::tape().backward(weights, cotangent.values());
      largest[!divided] = number(mean(amax(weights, 1)));
      gradient[!divided] = median_row(logits.grad(), 64);
    }
    std::cout << fmt::format("  {:>5} {:>21.1f} {:>16.2f} {:>10.4f} {:>28.2f} {:>10.4f}\n", d, deviation, largest[0],
                             gradient[0], largest[1], gradient[1]);
  }
}

// The gradient's norm at the input of a stack of blocks, relative to the output, with or without residual connections.
double gradient_at_the_input(int depth, bool has_residual) {
  seppo::tape().clear();
  seppo::Parameters parameters(1);
  const std::vector<int> rows{0, 16};
  const Tensor x = random_tensor({16, 32}, 1), cotangent = random_tensor({16, 32}, 2);
  Tensor y = x;
  for (int i = 0; i < depth; ++i) {
    const seppo::Scope s = parameters.root() / i;
    const seppo::MultiHeadAttention attention(s / "attn", 32, 4);
    const seppo::FeedForward ffn(s / "ffn", 32, 64);
    const seppo::LayerNorm first(s / "norm1", 32), second(s / "norm2", 32);
    const Tensor a = attention(y, rows);
    y = first(has_residual ? y + a : a);
    const Tensor f = ffn(y);
    y = second(has_residual ? y + f : f);
  }
  seppo::tape().backward(y, cotangent.values());
  return norm(x.grad()) / norm(cotangent.values());
}

// How similar the rows of an output are: the mean cosine similarity of two of them.
double likeness(int depth, bool has_residual) {
  seppo::tape().clear();
  seppo::Parameters parameters(1);
  const std::vector<int> rows{0, 16};
  Tensor y = random_tensor({16, 32}, 1);
  for (int i = 0; i < depth; ++i) {
    const seppo::Scope s = parameters.root() / i;
    const seppo::MultiHeadAttention attention(s / "attn", 32, 4);
    const seppo::LayerNorm after(s / "norm", 32);
    const Tensor a = attention(y, rows);
    y = after(has_residual ? y + a : a);
  }
  const Tensor unit = y / sqrt(sum(square(y), 1, true));
  return (number(sum(matmul(unit, transpose(unit)))) - 16) / (16 * 15);
}

void residuals() {
  std::cout << "\n2. Residuals: gradient that reaches the input, of 1 at the output; likeness of two positions after "
               "attention alone\n"
               "  blocks   with: gradient   likeness    without: gradient   likeness\n";
  for (const int depth : {1, 2, 4, 8, 16})
    std::cout << fmt::format("  {:>6} {:>16.2e} {:>10.2f} {:>20.2e} {:>10.2f}\n", depth,
                             gradient_at_the_input(depth, true), likeness(depth, true),
                             gradient_at_the_input(depth, false), likeness(depth, false));
}

// With one projection for both, scores are symmetric: score(i, j) = score(j, i).
void queries_and_keys() {
  seppo::tape().clear();
  const Tensor x = random_tensor({5, 8}, 1), wq = random_tensor({8, 8}, 2), wk = random_tensor({8, 8}, 3);
  const auto asymmetry = [&](const Tensor& q, const Tensor& k) {
    const Tensor scores = matmul(q, transpose(k));
    return number(mean(abs(scores - transpose(scores)))) / number(mean(abs(scores)));
  };
  std::cout << "\n3. Queries and keys of their own: |score(i, j) - score(j, i)|, relative to |score|\n"
            << fmt::format("  Q and K apart: {:.2f}    one projection for both: {:.2f}\n",
                           asymmetry(linear(x, wq), linear(x, wk)), asymmetry(linear(x, wq), linear(x, wq)));
}

// A sequence's output must not depend on the other sequences in the batch.
void layer_or_batch_norm() {
  seppo::tape().clear();
  seppo::Parameters parameters(1);
  const seppo::LayerNorm layer(parameters.root() / "layer", 8);
  const seppo::BatchNorm batch(parameters.root() / "batch", 8);
  const Tensor sentence = random_tensor({3, 8}, 1), short_one = random_tensor({2, 8}, 2),
               long_one = scale(random_tensor({40, 8}, 3), 2) + 1;
  const auto change = [&](const auto& normalise) {
    const Tensor a = slice(normalise(seppo::concat({sentence, short_one})), 0, 0, 3);
    const Tensor b = slice(normalise(seppo::concat({sentence, long_one})), 0, 0, 3);
    return number(amax(abs(a - b)));
  };
  std::cout
      << "\n4. Layer norm or batch norm: change of a sentence's values when its neighbour in the batch is another\n"
      << fmt::format("  layer norm: {:.2f}    batch norm: {:.2f}\n", change(layer), change(batch));
}

// Masks, and additive attention (Bahdanau et al. 2014), v . tanh(Wq q + Wk k), for queries and keys of any widths.
void masks() {
  seppo::tape().clear();
  const Tensor scores = random_tensor({1, 4, 4}, 1);
  std::cout << "\n5. Masks: the softmax of the same scores\n  none\n";
  print_rows(softmax(scores));
  std::cout << "  causal: no position sees a later one\n";
  print_rows(softmax(scores, Mask::causal()));
  const std::vector<int> two{2}, none{0}, of_queries{3, 1, 4, 2};
  std::cout << "  valid length 2: padding is not seen\n";
  print_rows(softmax(scores, Mask::valid_lengths(two)));
  std::cout << "  valid lengths 3, 1, 4, 2: each query has its own\n";
  print_rows(softmax(scores, Mask::valid_query_lengths(of_queries)));
  std::cout << "  valid length 0: nothing to see gives zeros, not NaN\n";
  print_rows(softmax(scores, Mask::valid_lengths(none)));

  const Tensor q = random_tensor({2, 20}, 2), k = random_tensor({5, 2}, 3);  // widths 20 and 2
  const Tensor wq = random_tensor({8, 20}, 4), wk = random_tensor({8, 2}, 5), v = random_tensor({8}, 6);
  const Tensor sums = unsqueeze(linear(q, wq), 1) + unsqueeze(linear(k, wk), 0);  // [queries, keys, hidden]
  std::cout << "\n6. Additive attention, for queries of width 20 and keys of width 2\n";
  print_rows(softmax(matmul(tanh(sums), v)));
}

int run(const std::vector<std::string>& arguments) {
  examples::CommandLine line("blocks_lab",
                             "Switches off, one by one, the parts of a Transformer's block, and prints what breaks.");
  if (!line.parse(arguments)) return 0;
  scale_of_scores();
  residuals();
  queries_and_keys();
  layer_or_batch_norm();
  masks();
  return 0;
}

}  // namespace
}  // namespace blocks_lab

int main(int argc, char** argv) { return examples::run_command(argc, argv, blocks_lab::run); }
