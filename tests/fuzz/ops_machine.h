// Runs a random program of ops alongside a naive reference: an input's bytes choose shapes, values and operands. Each
// op's value is compared with that of plain loops over the same inputs, and the gradient of the whole program along a
// random direction with the complex step of those loops.
#pragma once

#include "fuzz/fuzz.h"
#include "support/ops/table.h"
#include "support/reference.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <vector>

namespace fuzz {

using seppo::Shape;
using seppo::Tensor;
using test::Complex;
using test::Nd;

constexpr double kStep = 1e-30;

// The derivative carried by a number.
inline double slope_of(double) { return 0; }
inline double slope_of(const Complex& z) { return z.imag() / kStep; }
inline void make(double& y, double value, double) { y = value; }
inline void make(Complex& y, double value, double slope) { y = {value, slope * kStep}; }

// f(x), computed from its value and its slope.
template <class T, class F, class D>
Nd<T> lifted(const Nd<T>& x, const F& f, const D& slope) {
  return test::reference::map(x, [&](const T& e) {
    const double at = test::real_part(e);
    T y{};
    make(y, f(at), std::is_same_v<T, double> ? 0 : slope(at) * slope_of(e));
    return y;
  });
}

using Ints = std::vector<int>;
// The scalar type T of a reference's inputs, a std::vector<Nd<T>>.
template <class Inputs>
using Scalar = std::decay_t<decltype(std::declval<Inputs>()[0].v[0])>;

struct Value {
  Tensor tensor;
  Nd<double> x;                        // values
  Nd<Complex> z;                       // values and derivatives
  std::vector<double> direction = {};  // for a leaf
  int rank() const { return x.rank(); }
  int size(int axis) const { return x.size(axis); }
};

inline double largest(const Value& x) {
  double most = 0;
  for (const double e : x.x.v) most = std::max(most, std::isfinite(e) ? std::abs(e) : 0);
  return most;
}

enum class Values { smooth, extreme, not_finite };
enum class Fit { fits, refused, either };  // what the documentation says about operands
inline Fit fits_if(bool fits) { return fits ? Fit::fits : Fit::refused; }

struct Rule {
  Fit fit = Fit::fits;
  double terms = 0;          // magnitude of the summands, where inputs and outputs do not show it
  bool finite_only = false;  // nothing is promised for inputs that are not finite
};

class Machine : public test::Draw {
 public:
  explicit Machine(std::string_view input)
      : bytes(input),
        values(static_cast<Values>(bytes.below(3))),
        random_(static_cast<std::uint64_t>(bytes.byte()), seppo::Purpose::test) {
    seppo::tape().clear();
    for (int n = 1 + bytes.below(3); n > 0; --n) leaf(shape());
  }

  Bytes bytes;
  Values values;
  bool strays() override { return bytes.below(8) == 7; }

  const Value& any() { return pool_[static_cast<std::size_t>(bytes.byte()) % pool_.size()]; }

  std::vector<int> shape() {
    std::vector<int> sizes(static_cast<std::size_t>(bytes.below(Shape::kMaxRank + 1)));
    for (int& size : sizes) size = "\0\1\1\2\2\3\4\5"[bytes.below(8)];
    while (Nd<double>::count(sizes) > kMost) sizes.pop_back();
    return sizes;
  }

  // An operand for this place: of this shape, or almost of this shape, or any value.
  const Value& like(std::vector<int> sizes) {
    const int choice = bytes.byte();
    if (choice % 8 == 7) return any();
    for (const Value& value : pool_)
      if (choice % 2 && value.x.shape == sizes) return value;
    if (choice % 8 == 6 && !sizes.empty()) sizes[static_cast<std::size_t>(choice / 8) % sizes.size()] ^= 1;
    return leaf(sizes);
  }
  // The same for an operand that may be broadcast.
  const Value& broadcast(std::vector<int> sizes) {
    const int ones = bytes.byte();
    for (std::size_t axis = 0; axis < sizes.size(); ++axis)
      if (ones >> axis & 1) sizes[axis] = 1;
    if (ones & 16 && !sizes.empty()) sizes.erase(sizes.begin());
    return like(sizes);
  }
  // Sometimes out of range, and for scalars always: other tests cover what axes 0 and -1 of a scalar mean.
  int axis(int rank) { return rank == 0 ? 3 * bytes.below(2) - 2 : bytes.below(2 * rank + 3) - rank - 1; }
  static bool is_axis(int axis, int rank) { return -rank <= axis && axis < rank; }

  const Value& leaf(const std::vector<int>& sizes) {
    const std::size_t n = Nd<double>::count(sizes);
    std::vector<double> x(n), direction(n);
    const int style = bytes.byte();
    for (double& e : x) e = draw(style);
    for (double& e : direction) e = random_.normal();
    const Tensor tensor = seppo::variable(Shape(std::span<const int>(sizes)), x);
    Value& value = add(tensor);
    value.direction = direction;
    for (std::size_t i = 0; i < n; ++i) value.z.v[i] = {x[i], direction[i] * kStep};
    return value;
  }

  // Runs an op of the table with operands that the bytes choose.
  void run(const test::OpRow& row) {
    if (values != Values::smooth && row.range == test::Range::moderate) return;
    inputs.clear();
    operands_.clear();
    test::OpCase c = test::drawn(row, *this);
    if (row.range == test::Range::moderate && c.options.low > 0) c = test::of_positive(c);
    std::vector<Tensor> tensors;
    std::vector<double> magnitudes;
    for (const Value* operand : operands_) {
      tensors.push_back(operand->tensor);
      magnitudes.push_back(largest(*operand));
    }
    const double terms = c.terms ? c.terms(magnitudes) : 0;
    apply(
        row.name.c_str(), operands_, {fits_if(c.fits), terms, row.range != test::Range::all},
        [&] { return c.op(tensors); }, [&](const auto& x) { return c.reference(x); });
  }

  // Runs an op with one result, and its reference on the same inputs. reference(inputs) is called with real and with
  // complex numbers.
  template <class Op, class Reference>
  void apply(const char* name, const std::vector<const Value*>& operands, const Rule& rule, const Op& op,
             const Reference& reference) {
    Tensor y;
    const bool refused = refuses<seppo::ShapeError, seppo::IndexError, seppo::ArgumentError>([&] { y = op(); });
    if (rule.fit != Fit::either)
      require(refused == (rule.fit == Fit::refused), "refused or not, against the rule:", name);
    if (refused || rule.fit == Fit::refused) return;
    std::vector<Nd<double>> x;
    std::vector<Nd<Complex>> z;
    for (const Value* input : operands) {
      x.push_back(input->x);
      if (values == Values::smooth) z.push_back(input->z);
    }
    const Nd<double> expected = reference(x);
    require(std::ranges::equal(y.shape().sizes(), expected.shape), "another shape:", name);
    for (const Value* input : operands) {
      const bool same = std::ranges::equal(input->tensor.values(), input->x.v, [](double a, double b) {
        return a == b || (std::isnan(a) && std::isnan(b));
      });
      require(same, "an input changed:", name);
    }
    compare(name, x, y, expected, rule);
    if (!may_go_on(y)) return;
    if (values != Values::smooth) {
      add(y);
      return;
    }
    Nd<Complex> derivatives = reference(z);
    for (std::size_t i = 0; i < derivatives.v.size(); ++i) {
      const double slope = slope_of(derivatives.v[i]);
      if (!(std::abs(slope) <= kSteepest)) return;
      steepest_ = std::max(steepest_, std::abs(slope));
      make(derivatives.v[i], y.values()[i], slope);  // the op's own value, so that later branches agree
    }
    add(y).z = std::move(derivatives);
  }

  // Compares the derivative of the last values along the random direction.
  void finish() {
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
    if (values != Values::smooth) return;
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

 protected:
  int choose(int count) override { return bytes.below(count); }
  Shape first(const std::vector<Shape>&) override { return chosen(any()); }
  Shape take(const Shape& wanted) override { return chosen(like({wanted.sizes().begin(), wanted.sizes().end()})); }

 private:
  Shape chosen(const Value& value) {
    operands_.push_back(&value);
    return value.tensor.shape();
  }

  static constexpr std::size_t kMost = 32;                                    // elements
  static constexpr double kSmallest = 1e-4, kLargest = 1e3, kSteepest = 1e4;  // limits for smooth programs
  static constexpr double kExtreme = 1e150;

  double draw(int style) {
    const double small = std::floor(random_.uniform() * 9 - 4) / 2, normal = random_.normal();
    if (style % 2) return small;  // ties, zeros
    if (values == Values::smooth) return normal;
    if (values == Values::extreme) return normal * std::pow(10.0, 75 * (random_.below(5) - 2.0));
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
    if (values == Values::not_finite) return true;
    const bool smooth = values == Values::smooth;
    return std::ranges::all_of(y.values(), [&](double e) {
      return std::abs(e) <= (smooth ? kLargest : kExtreme) && (!smooth || e == 0 || std::abs(e) >= kSmallest);
    });
  }

  void compare(const char* name, const std::vector<Nd<double>>& x, const Tensor& y, const Nd<double>& expected,
               const Rule& rule) const {
    double largest = 0;
    bool finite = true;
    const auto note = [&](double e) {
      finite = finite && std::isfinite(e);
      if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
    };
    for (const Nd<double>& input : x) std::ranges::for_each(input.v, note);
    if (rule.finite_only && !finite) return;
    std::ranges::for_each(expected.v, note);
    const double floor = 1e-3 * largest + rule.terms;
    for (std::size_t i = 0; i < expected.v.size(); ++i) {
      const double e = expected.v[i], found = y.values()[i];
      if (values != Values::not_finite && !std::isfinite(e)) continue;  // overflow depends on the order
      const bool agree = std::isnan(e)   ? std::isnan(found)
                         : std::isinf(e) ? found == e
                                         : std::abs(found - e) <= 1e-11 * std::max(std::abs(e), floor) + 1e-300;
      require(agree, name, agree ? "" : seppo::concat_text("[", i, "]: ", found, ", expected ", e));
    }
  }

  seppo::RandomStream random_;
  std::deque<Value> pool_;
  std::vector<const Value*> operands_;  // of the op of the table that is being drawn
  double steepest_ = 1;                 // largest slope so far; directions count as 1
};

// ---- shorthands for the catalogue ------------------------------------------------------------------

inline Shape shape_of(const Ints& sizes) { return Shape(std::span<const int>(sizes)); }
inline int at(const Ints& sizes, int axis) {
  return sizes[static_cast<std::size_t>(axis < 0 ? axis + std::ssize(sizes) : axis)];
}
inline bool have_axis(const Value& x, int axis) { return Machine::is_axis(axis, x.rank()); }

}  // namespace fuzz
