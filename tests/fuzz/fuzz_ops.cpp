// Runs random programs of the ops in the table (support/ops/table.h) alongside their naive references, in double
// precision: an input's bytes choose ops, shapes, values and operands. Each op's value is compared with that of plain
// loops over the same inputs, and the gradient of the whole program along a random direction with the complex step of
// those loops.
#include "fuzz/fuzz.h"
#include "support/ops/table.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace fuzz;
using seppo::Shape;
using seppo::Tensor;
using test::Complex;
using test::Nd;

constexpr double kStep = 1e-30;

// The derivative carried by a number.
double slope_of(const Complex& z) { return z.imag() / kStep; }

struct Value {
  Tensor tensor;
  Nd<double> x;                        // values
  Nd<Complex> z;                       // values and derivatives
  std::vector<double> direction = {};  // for a leaf
};

double largest(const Value& x) {
  double most = 0;
  for (const double e : x.x.v) most = std::max(most, std::isfinite(e) ? std::abs(e) : 0);
  return most;
}

enum class Values { smooth, extreme, not_finite };

class Machine : public test::Draw {
 public:
  explicit Machine(std::string_view input)
      : bytes_(input),
        values_(static_cast<Values>(bytes_.below(3))),
        random_(static_cast<std::uint64_t>(bytes_.byte()), seppo::Purpose::test) {
    seppo::tape().clear();
    for (int n = 1 + bytes_.below(3); n > 0; --n) leaf(shape());
  }

  bool has_more() const { return !bytes_.rest().empty(); }
  bool strays() override { return bytes_.below(8) == 7; }
  void run(const test::OpRow& row);
  void finish();

 protected:
  int choose(int count) override { return bytes_.below(count); }
  Shape first(const std::vector<Shape>&) override { return chosen(any()); }
  Shape take(const Shape& wanted) override { return chosen(like(test::sizes_of(wanted))); }

 private:
  static constexpr std::size_t kMost = 32;                                    // elements
  static constexpr double kSmallest = 1e-4, kLargest = 1e3, kSteepest = 1e4;  // limits for smooth programs
  static constexpr double kExtreme = 1e150;

  const Value& any() { return pool_[static_cast<std::size_t>(bytes_.byte()) % pool_.size()]; }

  std::vector<int> shape() {
    std::vector<int> sizes(static_cast<std::size_t>(bytes_.below(Shape::kMaxRank + 1)));
    for (int& size : sizes) size = "\0\1\1\2\2\3\4\5"[bytes_.below(8)];
    while (Nd<double>::count(sizes) > kMost) sizes.pop_back();
    return sizes;
  }

  // An operand for this place: of this shape, or almost of this shape, or any value.
  const Value& like(std::vector<int> sizes) {
    const int choice = bytes_.byte();
    if (choice % 8 == 7) return any();
    for (const Value& value : pool_)
      if (choice % 2 && value.x.shape == sizes) return value;
    if (choice % 8 == 6 && !sizes.empty()) sizes[static_cast<std::size_t>(choice / 8) % sizes.size()] ^= 1;
    return leaf(sizes);
  }
  Shape chosen(const Value& value) {
    operands_.push_back(&value);
    return value.tensor.shape();
  }

  const Value& leaf(const std::vector<int>& sizes) {
    const std::size_t n = Nd<double>::count(sizes);
    std::vector<double> x(n), direction(n);
    const int style = bytes_.byte();
    for (double& e : x) e = draw(style);
    for (double& e : direction) e = random_.normal();
    const Tensor tensor = seppo::variable(Shape(std::span<const int>(sizes)), x);
    Value& value = add(tensor);
    value.direction = direction;
    for (std::size_t i = 0; i < n; ++i) value.z.v[i] = {x[i], direction[i] * kStep};
    return value;
  }

  double draw(int style) {
    const double small = std::floor(random_.uniform() * 9 - 4) / 2, normal = random_.normal();
    if (style % 2) return small;  // ties, zeros
    if (values_ == Values::smooth) return normal;
    if (values_ == Values::extreme) return normal * std::pow(10.0, 75 * (random_.below(5) - 2.0));
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::uint32_t kind = random_.below(12);
    return kind == 0   ? std::numeric_limits<double>::quiet_NaN()
           : kind == 1 ? kInfinity
           : kind == 2 ? -kInfinity
                       : normal;
  }

  Value& add(const Tensor& tensor) {
    Value value{tensor, {}, {}};
    value.x.shape.assign(tensor.shape().sizes().begin(), tensor.shape().sizes().end());
    value.x.v.assign(tensor.values().begin(), tensor.values().end());
    value.z.shape = value.x.shape;
    value.z.v.assign(value.x.v.begin(), value.x.v.end());
    return pool_.emplace_back(std::move(value));
  }

  bool may_go_on(const Tensor& y) const {
    if (y.values().size() > kMost) return false;
    if (values_ == Values::not_finite) return true;
    const bool smooth = values_ == Values::smooth;
    return std::ranges::all_of(y.values(), [&](double e) {
      return std::abs(e) <= (smooth ? kLargest : kExtreme) && (!smooth || e == 0 || std::abs(e) >= kSmallest);
    });
  }

  void compare(const test::OpRow& row, const test::OpCase& c, const Tensor& y, const Nd<double>& expected) const;
  void add_with_derivatives(const test::OpCase& c, const Tensor& y);

  Bytes bytes_;
  Values values_;
  seppo::RandomStream random_;
  std::deque<Value> pool_;
  std::vector<const Value*> operands_;  // of the op that is being drawn
  double steepest_ = 1;                 // largest slope so far; directions count as 1
};

bool are_same(std::span<const double> a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// Runs an op with operands that the bytes choose, and its reference on the same inputs.
void Machine::run(const test::OpRow& row) {
  const bool is_moderate = row.range == test::Range::moderate;
  if (is_moderate && values_ != Values::smooth) return;
  inputs.clear();
  operands_.clear();
  test::OpCase c = test::drawn(row, *this);
  if (is_moderate && c.options.low > 0) c = test::of_positive(c);
  std::vector<Tensor> tensors;
  test::Arrays<double> x;
  for (const Value* operand : operands_) {
    tensors.push_back(operand->tensor);
    x.push_back(operand->x);
  }
  Tensor y;
  const bool refused = refuses<seppo::ShapeError, seppo::IndexError, seppo::ArgumentError>([&] { y = c.op(tensors); });
  require(refused != c.fits, "refused or not, against the rule:", row.name);
  if (refused) return;
  const Nd<double> expected = c.reference(x);
  require(test::sizes_of(y.shape()) == expected.shape, "another shape:", row.name);
  for (const Value* operand : operands_)
    require(are_same(operand->tensor.values(), operand->x.v), "an input changed:", row.name);
  compare(row, c, y, expected);
  if (!may_go_on(y)) return;
  if (values_ == Values::smooth)
    add_with_derivatives(c, y);
  else
    add(y);
}

void Machine::compare(const test::OpRow& row, const test::OpCase& c, const Tensor& y,
                      const Nd<double>& expected) const {
  double most = 0;
  bool finite = true;
  const auto note = [&](double e) {
    finite = finite && std::isfinite(e);
    if (std::isfinite(e)) most = std::max(most, std::abs(e));
  };
  std::vector<double> magnitudes;
  for (const Value* operand : operands_) {
    std::ranges::for_each(operand->x.v, note);
    magnitudes.push_back(largest(*operand));
  }
  if (row.range != test::Range::all && !finite) return;
  std::ranges::for_each(expected.v, note);
  const double floor = 1e-3 * most + (c.terms ? c.terms(magnitudes) : 0);
  for (std::size_t i = 0; i < expected.v.size(); ++i) {
    const double e = expected.v[i], found = y.values()[i];
    if (values_ != Values::not_finite && !std::isfinite(e)) continue;  // overflow depends on the order
    const bool agree = std::isnan(e)   ? std::isnan(found)
                       : std::isinf(e) ? found == e
                                       : std::abs(found - e) <= 1e-11 * std::max(std::abs(e), floor) + 1e-300;
    require(agree, row.name, agree ? "" : seppo::concat_text("[", i, "]: ", found, ", expected ", e));
  }
}

// Adds the result to the pool, unless it is too steep. It keeps the op's own value, so that later branches agree.
void Machine::add_with_derivatives(const test::OpCase& c, const Tensor& y) {
  test::Arrays<Complex> z;
  for (const Value* operand : operands_) z.push_back(operand->z);
  Nd<Complex> derivatives = c.reference(z);
  for (std::size_t i = 0; i < derivatives.v.size(); ++i) {
    const double slope = slope_of(derivatives.v[i]);
    if (!(std::abs(slope) <= kSteepest)) return;
    steepest_ = std::max(steepest_, std::abs(slope));
    derivatives.v[i] = {y.values()[i], slope * kStep};
  }
  add(y).z = std::move(derivatives);
}

// Compares the derivative of the last values along the random direction.
void Machine::finish() {
  double expected = 0, found = 0, terms = 0, cotangents = 0;
  for (std::size_t n = 0; n < std::min<std::size_t>(pool_.size(), 4); ++n) {
    const Value& value = pool_[pool_.size() - 1 - n];
    std::vector<double> cotangent(value.x.v.size());
    for (std::size_t i = 0; i < cotangent.size(); ++i) {
      cotangent[i] = random_.normal();
      const double term = cotangent[i] * slope_of(value.z.v[i]);
      expected += term;
      terms += std::abs(term);
      cotangents += std::abs(cotangent[i]);
    }
    if (value.tensor.requires_grad()) seppo::tape().backward(value.tensor, cotangent);
  }
  if (values_ != Values::smooth) return;
  for (const Value& value : pool_) {
    std::span<const double> gradient;  // of a leaf that some result depends on
    if (!value.direction.empty()) refuses<seppo::StateError>([&] { gradient = value.tensor.grad(); });
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double term = gradient[i] * value.direction[i];
      found += term;
      terms += std::abs(term);
    }
  }
  const bool agree = std::abs(found - expected) <= 1e-9 * (terms + cotangents * steepest_) + 1e-12;
  require(agree, "another gradient:", agree ? "" : seppo::concat_text(found, ", expected ", expected));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Machine machine(std::string_view(reinterpret_cast<const char*>(data), size));
  for (int steps = 0; steps < 16 && machine.has_more(); ++steps) machine.run(machine.one_of(test::ops_table()));
  machine.finish();
  return 0;
}
