// homework: runs the exercises, and prints how far each result is from that of plain loops in double precision. Inputs
// and weights rise evenly, as in the courses, so that nothing depends on a random generator.
#include "app/command_line.h"
#include "homework/exercises.h"
#include "homework/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>

namespace homework {
namespace {

constexpr int kSequences = 2, kLength = 4, kMemory = 3, kWidth = 6, kHeads = 2, kHead = 5, kHidden = 7;

// Numbers that rise evenly from `first` to `last`.
Tensor rising(const seppo::Shape& shape, double first, double last) {
  const auto n = static_cast<std::size_t>(shape.numel());
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = first + (last - first) * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(1, n - 1));
  return seppo::tensor(shape, values);
}
Tensor weight(const seppo::Shape& shape) { return rising(shape, -1.4, 1.3); }

LinearWeights map_of(int inputs, int outputs) { return {weight({outputs, inputs}), weight({outputs})}; }
HeadWeights head_of(double first) {
  const auto one = [&](double shift) {
    return LinearWeights{rising({kHead, kWidth}, first + shift, 1.3), weight({kHead})};
  };
  return {one(0), one(0.2), one(-0.3)};
}
HeadsWeights heads() {
  HeadsWeights all{.heads = {}, .output = map_of(kHeads * kHead, kWidth)};
  for (int h = 0; h < kHeads; ++h) all.heads.push_back(head_of(-1.4 + 0.5 * h));
  return all;
}
FeedForwardWeights network() { return {map_of(kWidth, kHidden), map_of(kHidden, kWidth)}; }
NormWeights norm() { return {weight({kWidth}), rising({kWidth}, -0.5, 1)}; }

Tensor batch() { return rising({kSequences, kLength, kWidth}, -0.4, 0.6); }
Tensor memory() { return rising({kSequences, kMemory, kWidth}, -0.9, 0.3); }

// The largest difference, relative to the magnitude of both.
double error_of(const Tensor& found, const Array& right) {
  if (found.numel() != right.values.size()) return INFINITY;
  const std::vector<double> values = numbers(found);
  double worst = 0;
  for (std::size_t i = 0; i < right.values.size(); ++i) {
    const double a = values[i], b = right.values[i];
    if (!std::isfinite(a)) return INFINITY;
    worst = std::max(worst, std::abs(a - b) / std::max(1e-10, std::abs(a) + std::abs(b)));
  }
  return worst;
}

// The share of wrong ids.
double error_of(const std::vector<int>& found, const std::vector<int>& right) { return found == right ? 0 : 1; }

double tokens_error() {
  const Ids ids = token_ids({"0", "1", "2", "POSITIVE", "EOS"});
  return ids == Ids{{"0", 0}, {"1", 1}, {"2", 2}, {"POSITIVE", 3}, {"EOS", 4}} ? 0 : 1;
}

double ids_error() {
  const Ids ids{{"0", 0}, {"4", 4}, {"POSITIVE", 10}, {"NEGATIVE", 11}, {"BOS", 14}, {"EOS", 15}};
  return error_of(ids_of("BOS POSITIVE 04 EOS", ids), {14, 10, 0, 4, 15}) +
         error_of(ids_of("NEGATIVE 40", ids), {11, 4, 0});
}

// Of one sequence for the loops, of a batch for the products.
struct Projected {
  Tensor q, k, v;
};
Projected projected(const seppo::Shape& shape) {
  return {rising(shape, -0.4, 0.6), rising(shape, -0.8, 0.5), rising(shape, -0.3, 0.8)};
}

double loops_error() {
  const auto [q, k, v] = projected({kLength, kWidth});
  return error_of(attention_by_loops(q, k, v), loops::attention(array(q, 1), array(k, 1), array(v, 1), false));
}

double products_error(bool is_causal) {
  const auto [q, k, v] = projected({kSequences, kLength, kWidth});
  Tensor allowed;
  if (is_causal) allowed = tril(seppo::ones({kLength, kLength}));
  return error_of(attention_by_products(q, k, v, allowed), loops::attention(array(q), array(k), array(v), is_causal));
}

double mask_error() { return error_of(causal_mask(3), {1, 3, 3, {1, 0, 0, 1, 1, 0, 1, 1, 1}}); }

double self_attention_error() {
  return error_of(self_attention(batch(), head_of(-1.4)), loops::self_attention(array(batch()), head_of(-1.4)));
}
double heads_error() {
  return error_of(multi_head_attention(batch(), memory(), heads()),
                  loops::multi_head(array(batch()), array(memory()), heads(), false));
}
double norm_error() { return error_of(layer_norm(batch(), norm()), loops::layer_norm(array(batch()), norm())); }
double network_error() {
  return error_of(feed_forward(batch(), network()), loops::feed_forward(array(batch()), network()));
}
double encoder_error() {
  const EncoderWeights block{heads(), network(), norm(), norm()};
  return error_of(encoder_block(batch(), block), loops::encoder_block(array(batch()), block));
}
double decoder_error() {
  const DecoderWeights block{heads(), heads(), network(), norm(), norm(), norm()};
  return error_of(decoder_block(batch(), memory(), block),
                  loops::decoder_block(array(batch()), array(memory()), block));
}
double positions_error(bool are_sinusoids) {
  const Tensor found = are_sinusoids ? sinusoids(kLength, kWidth) : simple_positions(kLength, kWidth);
  return error_of(found, loops::positions(kLength, kWidth, are_sinusoids));
}

struct Check {
  const char* name;
  double tolerance;  // the courses', which leave room for single precision
  std::function<double()> error;
};

const std::vector<Check>& checks() {
  static const std::vector<Check> all{
      {"token_ids", 0, tokens_error},
      {"ids_of", 0, ids_error},
      {"attention_by_loops", 1e-5, loops_error},
      {"attention_by_products", 1e-5, [] { return products_error(false); }},
      {"attention_by_products, masked", 1e-5, [] { return products_error(true); }},
      {"causal_mask", 0, mask_error},
      {"self_attention", 1e-5, self_attention_error},
      {"multi_head_attention", 1e-5, heads_error},
      {"layer_norm", 1e-4, norm_error},
      {"feed_forward", 1e-5, network_error},
      {"encoder_block", 1e-4, encoder_error},
      {"decoder_block", 1e-4, decoder_error},
      {"simple_positions", 1e-6, [] { return positions_error(false); }},
      {"sinusoids", 1e-5, [] { return positions_error(true); }},
  };
  return all;
}

// Prints a line; is the exercise done?
bool run(const Check& check) {
  seppo::tape().clear();
  std::string verdict;
  bool is_done = false;
  try {
    const double error = check.error();
    is_done = error <= check.tolerance;
    verdict = fmt::format("error: {:<9.2e} {}", error, is_done ? "ok" : "too large");
  } catch (const std::exception& e) {
    verdict = e.what();
  }
  std::cout << fmt::format("{:<30} {}\n", check.name, verdict);
  return is_done;
}

int run(const examples::Arguments& arguments) {
  examples::CommandLine line("homework [options]",
                             "Checks the exercises of examples/homework/exercises.h, which are to be written in "
                             "exercises.cpp beside it. Exits with 0 if all are right.");
  if (!line.parse(arguments)) return 0;
  const auto done = std::ranges::count_if(checks(), [](const Check& check) { return run(check); });
  std::cout << fmt::format("{} of {} right\n", done, checks().size());
  return done == std::ssize(checks()) ? 0 : 1;
}

}  // namespace
}  // namespace homework

int main(int argc, char** argv) {
  return examples::run_command(argc, argv, [](const auto& arguments) { return homework::run(arguments); });
}
