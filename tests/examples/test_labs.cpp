// The labs print and draw what a few plain loops compute.
// needs: programs: all
#include "app/random_tensor.h"
#include "support/matches.h"
#include "support/nd.h"
#include "support/program.h"
#include "support/reference.h"

#include <seppo/models/transformer.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>
#include <numeric>

using namespace test;
using Array = Nd<double>;

namespace {

template <class T>
Nd<T> array(const seppo::Tensor& x) {
  std::vector<int> shape;
  for (int axis = 0; axis < x.rank(); ++axis) shape.push_back(x.size(axis));
  Nd<T> y(shape);
  std::copy(x.values().begin(), x.values().end(), y.v.begin());
  return y;
}
Array drawn(const seppo::Shape& shape, std::uint64_t seed) {
  return array<double>(examples::random_tensor(shape, seed));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The numbers in a line that stand alone or after a word.
std::vector<std::string> numbers(const std::string& line) {
  std::vector<std::string> found;
  for (const Match& m : matches(line, "(?:^|[ :])(-?[0-9][0-9.]*(?:e[-+][0-9]+)?)(?= |$)")) found.push_back(m[1]);
  return found;
}

// `text` is x rounded to the digits shown, up to single-precision error.
void check_printed(const std::string& text, double x, const std::string& what) {
  const std::size_t point = text.find('.'), e = text.find('e');
  double unit =
      point == std::string::npos ? 1 : std::pow(10, -static_cast<double>(std::min(e, text.size()) - point - 1));
  if (e != std::string::npos) unit *= std::pow(10, std::stod(text.substr(e + 1)));
  BOOST_CHECK_MESSAGE(std::abs(std::stod(text) - x) <= 0.5001 * unit + 2e-5 * std::abs(x) + 1e-7,
                      what << ": " << text << " is printed for " << x);
}
void check_row(const std::string& line, const std::vector<double>& expected, const std::string& what) {
  const std::vector<std::string> texts = numbers(line);
  BOOST_REQUIRE_MESSAGE(texts.size() == expected.size(), what << ": " << line);
  for (std::size_t i = 0; i < texts.size(); ++i) check_printed(texts[i], expected[i], what);
}

double norm(const std::vector<double>& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

// x W^T for each row of x; biases are zero, as initialised.
template <class T>
Nd<T> linear(const Nd<T>& x, const Array& w) {
  Nd<T> y({x.size(0), w.size(0)});
  const auto width = static_cast<std::size_t>(x.size(1)), outputs = static_cast<std::size_t>(w.size(0));
  for (std::size_t i = 0; i < y.v.size(); ++i)
    for (std::size_t c = 0; c < width; ++c) y.v[i] += x.v[i / outputs * width + c] * w.v[i % outputs * width + c];
  return y;
}
template <class T>
Nd<T> normalised(const Nd<T>& x) {
  Nd<T> gain({x.size(1)}), bias({x.size(1)});
  std::fill(gain.v.begin(), gain.v.end(), T(1));
  return reference::layer_norm(x, gain, bias, 1e-5);
}

// Attention blocks with four heads, each followed by a feed-forward network if it has one.
struct Block {
  Array in, out, up, down;
};
template <class T>
Nd<T> through(Nd<T> x, const std::vector<Block>& blocks, bool has_residual) {
  const auto sublayer = [&](const Nd<T>& y) {
    x = normalised(has_residual ? reference::zip(x, y, [](const T& a, const T& b) { return a + b; }) : y);
  };
  for (const Block& block : blocks) {
    const Nd<T> qkv = linear(x, block.in);
    Nd<T> parts[3], heads(x.shape);
    for (int part = 0; part < 3; ++part)
      parts[part] = reference::pick(qkv, x.shape, [&](std::vector<int> at) {
        at[1] += part * x.size(1);
        return at;
      });
    for (int head = 0, width = x.size(1) / 4; head < 4; ++head)
      reference::attention(heads, parts[0], parts[1], parts[2], 0, x.size(0), 0, x.size(0), head * width, width,
                           [](int, int) { return true; });
    sublayer(linear(heads, block.out));
    if (block.up.v.empty()) continue;
    const auto relu = [](const T& v) { return real_part(v) > 0 ? v : T(0); };
    sublayer(linear(reference::map(linear(x, block.up), relu), block.down));
  }
  return x;
}

// The norm of the input gradient, by the complex step, relative to the norm of the cotangent.
double gradient_at_the_input(int depth, bool has_residual) {
  seppo::Parameters parameters(1);
  std::vector<Block> blocks;
  for (int i = 0; i < depth; ++i) {
    const seppo::Scope s = parameters.root() / i;
    const seppo::MultiHeadAttention attention(s / "attn", 32, 4);
    const seppo::FeedForward ffn(s / "ffn", 32, 64);
    blocks.push_back({array<double>(attention.in_proj.weight), array<double>(attention.out_proj.weight),
                      array<double>(ffn.up.weight), array<double>(ffn.down.weight)});
  }
  const Array x = drawn({16, 32}, 1), cotangent = drawn({16, 32}, 2);
  Nd<Complex> at(x.shape);
  std::copy(x.v.begin(), x.v.end(), at.v.begin());
  std::vector<double> gradient;
  for (Complex& entry : at.v) {
    entry += Complex(0, 1e-20);
    const Nd<Complex> y = through(at, blocks, has_residual);
    double sum = 0;
    for (std::size_t i = 0; i < y.v.size(); ++i) sum += y.v[i].imag() / 1e-20 * cotangent.v[i];
    gradient.push_back(sum);
    entry = entry.real();
  }
  return norm(gradient) / norm(cotangent.v);
}

double cosine(const Array& x, int a, int b) {
  double ab = 0, aa = 0, bb = 0;
  for (int c = 0; c < x.size(1); ++c)
    ab += x({a, c}) * x({b, c}), aa += x({a, c}) * x({a, c}), bb += x({b, c}) * x({b, c});
  return ab / std::sqrt(aa * bb);
}

// The mean cosine similarity between rows after blocks of attention only.
double likeness(int depth, bool has_residual) {
  seppo::Parameters parameters(1);
  std::vector<Block> blocks;
  for (int i = 0; i < depth; ++i) {
    const seppo::MultiHeadAttention attention(parameters.root() / i / "attn", 32, 4);
    blocks.push_back({array<double>(attention.in_proj.weight), array<double>(attention.out_proj.weight), {}, {}});
  }
  const Array y = through(drawn({16, 32}, 1), blocks, has_residual);
  double sum = 0;
  for (int a = 0; a < 16; ++a)
    for (int b = 0; b < a; ++b) sum += cosine(y, a, b) / (16 * 15 / 2);
  return sum;
}

// The scores' standard deviation, then the mean largest weight and the median gradient norm, scaled and unscaled.
std::vector<double> scale_of_scores(int d) {
  const Array q = drawn({64, d}, 1), k = drawn({64, d}, 2), cotangent = drawn({64, 64}, 3), scores = linear(q, k);
  const double mean = std::accumulate(scores.v.begin(), scores.v.end(), 0.0) / 4096;
  double squares = 0;
  for (const double s : scores.v) squares += (s - mean) * (s - mean) / 4095;
  std::vector<double> row{static_cast<double>(d), std::sqrt(squares)};
  for (const double divisor : {std::sqrt(static_cast<double>(d)), 1.0}) {
    double largest = 0;
    std::vector<double> norms;
    for (int i = 0; i < 64; ++i) {
      std::vector<double> p, gradient;
      for (int j = 0; j < 64; ++j) p.push_back(scores({i, j}) / divisor);
      reference::softmax(p);
      largest += *std::max_element(p.begin(), p.end()) / 64;
      double along = 0;
      for (int j = 0; j < 64; ++j) along += p[static_cast<std::size_t>(j)] * cotangent({i, j});
      for (int j = 0; j < 64; ++j) gradient.push_back(p[static_cast<std::size_t>(j)] * (cotangent({i, j}) - along));
      norms.push_back(norm(gradient));
    }
    std::sort(norms.begin(), norms.end());
    row.insert(row.end(), {largest, norms[32]});
  }
  return row;
}

double asymmetry(const Array& q, const Array& k) {
  const Array scores = linear(q, k);
  double apart = 0, all = 0;
  for (int i = 0; i < scores.size(0); ++i)
    for (int j = 0; j < scores.size(0); ++j)
      apart += std::abs(scores({i, j}) - scores({j, i})), all += std::abs(scores({i, j}));
  return apart / all;
}

// The first three rows of a batch, with each column normalised over all rows of the batch.
Array batch_norm(const Array& sentence, const Array& neighbour) {
  Array y({3, 8});
  for (int c = 0; c < 8; ++c) {
    std::vector<double> column;
    for (const Array* part : {&sentence, &neighbour})
      for (int i = 0; i < part->size(0); ++i) column.push_back((*part)({i, c}));
    const double n = static_cast<double>(column.size()), mean = std::accumulate(column.begin(), column.end(), 0.0) / n;
    double variance = 0;
    for (const double v : column) variance += (v - mean) * (v - mean) / n;
    for (int i = 0; i < 3; ++i) y({i, c}) = (column[static_cast<std::size_t>(i)] - mean) / std::sqrt(variance + 1e-5);
  }
  return y;
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_lab_prints_what_loops_compute) {
  const Folder folder;
  const Result r = folder.run({"blocks_lab"});
  BOOST_REQUIRE_EQUAL(r.code, 0);
  const std::vector<std::string> lines = lines_of(r.out);
  BOOST_REQUIRE_EQUAL(lines.size(), 52u);
  std::size_t at = 0;
  const auto row = [&](const char* start) {  // the next line that contains `start`
    while (at < lines.size() && lines[at].find(start) == std::string::npos) ++at;
    BOOST_REQUIRE_MESSAGE(at < lines.size(), start);
    return lines[at++];
  };
  row("1. ");
  for (const int d : {4, 16, 64, 256, 1024})
    check_row(row((" " + std::to_string(d) + " ").c_str()), scale_of_scores(d), "scores of width " + std::to_string(d));
  row("2. ");
  for (const int depth : {1, 2, 4, 8, 16}) {
    const std::vector<std::string> printed = numbers(row((" " + std::to_string(depth) + " ").c_str()));
    BOOST_REQUIRE_EQUAL(printed.size(), 5);
    for (const bool has_residual : {true, false}) {
      const std::string what = std::to_string(depth) + " blocks" + (has_residual ? "" : " without residuals");
      if (depth <= 2) check_printed(printed[has_residual ? 1 : 3], gradient_at_the_input(depth, has_residual), what);
      check_printed(printed[has_residual ? 2 : 4], likeness(depth, has_residual), what);
    }
  }
  const Array x = drawn({5, 8}, 1), q = linear(x, drawn({8, 8}, 2)), k = linear(x, drawn({8, 8}, 3));
  check_row(row("Q and K apart: "), {asymmetry(q, k), 0}, "asymmetry");

  const Array sentence = drawn({3, 8}, 1), short_one = drawn({2, 8}, 2),
              long_one = reference::map(drawn({40, 8}, 3), [](double v) { return 2 * v + 1; });
  double change = 0;
  for (int i = 0; i < 24; ++i)
    change = std::max(change, std::abs(batch_norm(sentence, short_one).v[static_cast<std::size_t>(i)] -
                                       batch_norm(sentence, long_one).v[static_cast<std::size_t>(i)]));
  check_row(row("layer norm: "), {0, change}, "norms");

  const Array scores = drawn({1, 4, 4}, 1);
  const auto check_masked = [&](const char* title, const auto& allowed) {
    row(title);
    for (int i = 0; i < 4; ++i) {
      std::vector<double> p(scores.v.begin() + 4 * i, scores.v.begin() + 4 * i + 4);
      reference::softmax_allowed(p, [&](std::size_t j) { return allowed(static_cast<std::size_t>(i), j); });
      check_row(row("    "), p, title);
    }
  };
  check_masked("  none", [](std::size_t, std::size_t) { return true; });
  check_masked("  causal", [](std::size_t i, std::size_t j) { return j <= i; });
  check_masked("  valid length 2", [](std::size_t, std::size_t j) { return j < 2; });
  check_masked("  valid lengths 3, 1, 4, 2", [](std::size_t i, std::size_t j) {
    return j < std::vector<std::size_t>{3, 1, 4, 2}[i];
  });
  check_masked("  valid length 0", [](std::size_t, std::size_t) { return false; });

  row("6. ");
  const Array wide = linear(drawn({2, 20}, 2), drawn({8, 20}, 4)), narrow = linear(drawn({5, 2}, 3), drawn({8, 2}, 5)),
              v = drawn({8}, 6);
  for (int i = 0; i < 2; ++i) {
    std::vector<double> p(5);
    for (int j = 0; j < 5; ++j)
      for (int c = 0; c < 8; ++c)
        p[static_cast<std::size_t>(j)] += std::tanh(wide({i, c}) + narrow({j, c})) * v.v[static_cast<std::size_t>(c)];
    reference::softmax(p);
    check_row(row("    "), p, "additive attention");
  }
}
