// Every row of the table of ops on more elements than one piece of any loop has, and on sizes around those of pieces:
// its values, and its gradients along a random direction, against its naive reference.
// needs: precision: double; not_in_valgrind: double
#include "support/op_check.h"
#include "support/ops/table.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace test;

namespace {

// Where the code changes its way: terms of a sum, elements of a gated part, and of a piece for a thread.
const std::vector<Shape> kEdges{{512}, {513}, {1024}, {1025}, {16385}, {513, 2}, {2, 513}};

// Inputs, and where they go.
struct Point {
  Arrays<double> x, direction;
};

Point point_of(const OpCase& c) {
  seppo::RandomStream random(c.options.seed, seppo::Purpose::test);
  const double low = c.options.low, width = c.options.high - low;
  Point p;
  for (const Shape& shape : c.shapes) {
    for (Arrays<double>* const all : {&p.x, &p.direction}) all->emplace_back(sizes_of(shape));
    for (double& v : p.x.back().v) v = width == 0 ? random.normal() : low + width * random.uniform();
    for (double& v : p.direction.back().v) v = random.normal();
  }
  return p;
}

// The reference's value at x + i h direction: its real part, and the derivative along the direction as the imaginary.
Nd<Complex> moved(const OpCase& c, const Point& p) {
  Arrays<Complex> z;
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    z.emplace_back(p.x[i].shape);
    const bool varies = i + c.options.constants < p.x.size();
    for (std::size_t j = 0; j < p.x[i].v.size(); ++j)
      z.back().v[j] = {p.x[i].v[j], varies ? 1e-30 * p.direction[i].v[j] : 0};
  }
  return c.reference(z);
}

void check_values(const std::string& what, std::span<const real> values, const Nd<Complex>& expected) {
  BOOST_REQUIRE_EQUAL(values.size(), expected.v.size());
  double largest = 1;
  for (const Complex& e : expected.v) largest = std::max(largest, std::abs(e.real()));
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(values[i] - expected.v[i].real());
    worst = std::isnan(error) ? 1 : std::max(worst, error);
  }
  BOOST_CHECK_MESSAGE(worst <= 1e-12 * largest, what << ": off by " << worst);
}

// A change of any element's gradient by a millionth shows in the sum over all elements.
void check_gradients(const std::string& what, const Point& p, const std::vector<Tensor>& inputs, double expected,
                     double terms) {
  double along = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t j = 0; inputs[i].requires_grad() && j < inputs[i].numel(); ++j) {
      along += inputs[i].grad()[j] * p.direction[i].v[j];
      terms += std::abs(inputs[i].grad()[j] * p.direction[i].v[j]);
    }
  const double error = std::abs(along - expected);
  BOOST_CHECK_MESSAGE(error <= 1e-12 * std::max(1.0, terms), what << ": gradients " << along << ", not " << expected);
}

// Naive references of ops that make fewer elements than they take, such as sums, look at each of these for each of
// those.
bool is_quick(const std::vector<Tensor>& inputs, const Tensor& y) {
  constexpr std::size_t kMany = 1100, kMost = 500'000;
  std::size_t most = 0;
  for (const Tensor& x : inputs) most = std::max(most, x.numel());
  return y.numel() < kMost && (most < kMany || inputs[0].rank() == 1 || y.numel() >= most);
}

void check_large(const std::string& name, const OpCase& c) {
  std::string what = name;
  for (const Shape& shape : c.shapes) what += " " + shape.str();
  const Point p = point_of(c);
  seppo::tape().clear();
  soil(seppo::tape());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < p.x.size(); ++i) {
    const bool varies = i + c.options.constants < p.x.size();
    inputs.push_back(varies ? seppo::variable(c.shapes[i], reals(p.x[i].v))
                            : seppo::tensor(c.shapes[i], reals(p.x[i].v)));
  }
  const Tensor y = c.op(inputs);
  if (!is_quick(inputs, y)) return;
  const Nd<Complex> expected = moved(c, p);
  check_values(what, y.values(), expected);
  if (!y.requires_grad()) return;
  seppo::RandomStream random(2, seppo::Purpose::test);
  std::vector<real> cotangent(y.numel());
  double along = 0, terms = 0;
  for (std::size_t i = 0; i < cotangent.size(); ++i) {
    cotangent[i] = static_cast<real>(random.normal());
    const double term = cotangent[i] * expected.v[i].imag() * 1e30;
    along += term;
    terms += std::abs(term);
  }
  seppo::tape().backward(y, cotangent);
  check_gradients(what, p, inputs, along, terms);
}

// The call on inputs of these shapes, if the op takes them.
void check_shapes(const OpRow& row, const std::vector<Shape>& shapes, std::uint64_t seed) {
  GivenShapes draw(shapes, seed);
  const OpCase c = drawn(row, draw);
  if (c.fits) check_large(row.name, c);
}

}  // namespace

BOOST_AUTO_TEST_CASE(more_elements_than_a_piece) {
  for (const OpRow& row : ops_table())
    if (!row.large.empty() && row.name != "index_softmax")  // the reference takes quadratic time
      check_shapes(row, row.large, /*seed=*/1);
  seppo::tape().clear();
}

// Of ops whose inputs have one shape.
BOOST_AUTO_TEST_CASE(sizes_of_pieces) {
  std::uint64_t seed = 0;
  for (const OpRow& row : ops_table()) {
    if (row.large.empty() || !std::ranges::all_of(row.large, [&](const Shape& s) { return s == row.large[0]; }))
      continue;
    for (const Shape& shape : kEdges) check_shapes(row, std::vector<Shape>(row.large.size(), shape), ++seed);
  }
  seppo::tape().clear();
}
