// Rows of reductions over axes, and of ops along one axis.
#include "support/ops/axes.h"
#include "support/ops/extreme.h"
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace test {

namespace {

namespace ref = test::reference;
using seppo::Axes;

// ---- over a set of axes

const std::vector<Shape> kShapes{{},     {5},       {1},       {0},       {3, 4},       {2, 0},      {0, 3},
                                 {1, 7}, {2, 3, 4}, {3, 1, 2}, {2, 0, 3}, {2, 3, 2, 3}, {3, 1, 1, 4}};

const Shape kWide{70, 1000}, kTall{3000, 20};

using Reduce = std::function<Tensor(const Tensor&, const Axes&, bool keepdim)>;

// A reduction over some axes, to what f makes of their elements; it refuses those of up to `too_few` elements.
// `options` are PyTorch's.
template <class F>
OpCase reduced(Draw& d, const Reduce& op, const F& f, double too_few, const std::string& torch,
               const std::string& options = "") {
  const Shape x = d.input(kShapes);
  const Chosen over = chosen(d, x);
  const bool keepdim = d.flag();
  const std::string arguments = "(x[0], dim=" + text(over.all) + options + (keepdim ? ", keepdim=True)" : ")");
  return {.op = [=](Inputs in) { return op(in[0], over.axes(), keepdim); },
          .reference = [=](const auto& in) { return ref::reduce(in[0], over.all, keepdim, f); },
          .fits = over.fits && static_cast<double>(over.count) > too_few,
          .torch = x.rank() == 0 ? "" : torch + arguments,
          .options = {.by_differences = over.count > 0},
          .terms = [](std::span<const double> most) { return most[0]; }};
}

template <class F>
OpRow reduction(const std::string& name, Tensor (*op)(const Tensor&, const Axes&, bool), const F& f, double too_few,
                const std::string& torch, Range range = Range::finite) {
  return {.name = name,
          .draw = [=](Draw& d) { return reduced(d, op, f, too_few, torch); },
          .large = {kWide},
          .range = range};
}

template <class T>
T sum_of(const std::vector<T>& v) {
  T total = 0;
  for (const T& e : v) total += e;
  return total;
}

template <class T>
T mean_of(const std::vector<T>& v) {
  return sum_of(v) / static_cast<double>(v.size());
}

template <class T>
T variance_of(const std::vector<T>& v, double correction) {
  const T mean = mean_of(v);
  T total = 0;
  for (const T& e : v) total += (e - mean) * (e - mean);
  return total / (static_cast<double>(v.size()) - correction);
}

template <class T>
T logsumexp_of(const std::vector<T>& v) {
  double top = -std::numeric_limits<double>::infinity();
  for (const T& e : v) top = std::max(top, real_part(e));
  if (v.empty()) return T(top);
  T total = 0;
  for (const T& e : v) total += std::exp(e - top);
  return std::log(total) + top;
}

// The root of a sum of squares, with slope 0 at 0. A complex step leaves the square of its length there.
template <class T>
T root_of(const T& squares) {
  return real_part(squares) <= 1e-40 ? T(0) : std::sqrt(squares);
}

template <class T>
T norm_of(const std::vector<T>& v) {
  T squares = 0;
  for (const T& e : v) squares += e * e;
  return root_of(squares);
}

constexpr double kNothing = -1;  // an empty sum is a number

std::vector<OpRow> sums_and_extremes() {
  return {
      reduction(
          "sum", seppo::sum, [](const auto& v) { return sum_of(v); }, kNothing, "torch.sum"),
      reduction(
          "mean", seppo::mean, [](const auto& v) { return mean_of(v); }, 0, "torch.mean"),
      reduction(
          "norm", seppo::norm, [](const auto& v) { return norm_of(v); }, kNothing, "torch.linalg.vector_norm",
          Range::moderate),
      reduction(
          "amax", seppo::amax, [](const auto& v) { return extreme_of(v, 1); }, 0, "torch.amax", Range::all),
      reduction(
          "amin", seppo::amin, [](const auto& v) { return extreme_of(v, -1); }, 0, "torch.amin", Range::all),
      reduction(
          "logsumexp", seppo::logsumexp, [](const auto& v) { return logsumexp_of(v); }, kNothing, "torch.logsumexp"),
  };
}

template <class T>
T product_of(const std::vector<T>& v) {
  T product = 1;
  for (const T& e : v) product *= e;
  return product;
}

// PyTorch takes one axis; torch_cases.py compares those.
OpCase product(Draw& d) {
  OpCase c = reduced(
      d, seppo::prod, [](const auto& v) { return product_of(v); }, kNothing, "");
  c.torch = "";
  return c;
}

// PyTorch 1.13 takes no other corrections.
bool is_whole(double correction) { return correction == std::floor(correction); }

OpCase variance(Draw& d) {
  const double correction = d.number({0, 1, 0.5, -1.5});
  OpCase c = reduced(
      d, [=](const Tensor& x, const Axes& axes, bool keep) { return seppo::var(x, axes, correction, keep); },
      [=](const auto& v) { return variance_of(v, correction); }, std::max(correction, 0.0), "torch.var",
      ", correction=" + text(correction));
  c.terms = [](std::span<const double> most) { return most[0] * most[0]; };
  if (!is_whole(correction)) c.torch = "";
  return c;
}

OpCase deviation(Draw& d) {
  const double correction = d.number({0, 1, 0.5});
  OpCase c = reduced(
      d, [=](const Tensor& x, const Axes& axes, bool keep) { return seppo::stddev(x, axes, correction, keep); },
      [=](const auto& v) { return root_of(variance_of(v, correction)); }, std::max(correction, 0.0), "torch.std",
      ", correction=" + text(correction));
  if (!is_whole(correction)) c.torch = "";
  return c;
}

// ---- along one axis

const std::vector<Shape> kWithAxes{{1}, {5}, {3, 4}, {1, 1}, {2, 3, 5}, {2, 3, 2, 4}, {0, 4}, {3, 1, 2}};

// Where the largest is, or for sign -1 the smallest: the first of equal ones. The first NaN counts as both.
template <class T>
std::size_t place_of(const std::vector<T>& v, double sign) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < v.size(); ++i) {
    const double e = sign * real_part(v[i]), b = sign * real_part(v[best]);
    if (!std::isnan(b) && (std::isnan(e) || e > b)) best = i;
  }
  return best;
}

OpCase one_extreme(Draw& d, bool largest) {
  const Shape x = d.input(kWithAxes);
  const int axis = d.axis(x.rank());
  const bool keepdim = d.flag();
  const bool fits = has_axis(x, axis);
  const double sign = largest ? 1 : -1;
  const std::string options = "(x[0], " + std::to_string(axis) + ", keepdim=" + (keepdim ? "True" : "False") + ")[0]";
  return {.op = [=](Inputs in) { return (largest ? seppo::max : seppo::min)(in[0], axis, keepdim).values; },
          .reference =
              [=](const auto& in) {
                return ref::reduce(in[0], {from_start(x, axis)}, keepdim,
                                   [=](const auto& v) { return v[place_of(v, sign)]; });
              },
          .fits = fits && x[axis] > 0,
          .torch = (largest ? "torch.max" : "torch.min") + options};
}

// The indices as a tensor, which are also those of max and min.
OpCase place_of_extreme(Draw& d, bool largest) {
  const Shape x = d.input(kWithAxes);
  const int axis = d.axis(x.rank());
  const double sign = largest ? 1 : -1;
  const std::string torch = largest ? "torch.argmax" : "torch.argmin";
  return {.op =
              [=](Inputs in) {
                const std::vector<int> places = (largest ? seppo::argmax : seppo::argmin)(in[0], axis);
                const seppo::Extreme found = (largest ? seppo::max : seppo::min)(in[0], axis, false);
                if (places != found.indices) throw std::logic_error("two functions find the extreme at two places");
                return seppo::tensor(found.values.shape(), reals(places));
              },
          .reference =
              [=](const auto& in) {
                return ref::reduce(in[0], {from_start(x, axis)}, false, [=](const auto& v) {
                  return typename std::decay_t<decltype(v)>::value_type(static_cast<double>(place_of(v, sign)));
                });
              },
          .fits = has_axis(x, axis) && x[axis] > 0,
          .torch = torch + "(x[0], " + std::to_string(axis) + ").double()",
          .options = {.by_differences = false, .constants = 1}};
}

OpCase several_extremes(Draw& d) {
  const Shape x = d.input(kWithAxes);
  const int axis = d.axis(x.rank()), n = has_axis(x, axis) ? x[axis] : 1, k = d.integer(1, std::max(n, 1));
  const bool largest = d.flag();
  const double sign = largest ? 1 : -1;
  const auto sort = [=](auto& row) {
    std::stable_sort(row.begin(), row.end(),
                     [=](const auto& a, const auto& b) { return sign * real_part(a) > sign * real_part(b); });
  };
  const std::string options = std::to_string(k) + ", " + std::to_string(axis) + (largest ? ", True" : ", False");
  return {.op = [=](Inputs in) { return seppo::topk(in[0], k, axis, largest).values; },
          .reference =
              [=](const auto& in) {
                return ref::pick(ref::along(in[0], axis, sort), sizes_of(x.with(axis, k)),
                                 [](const std::vector<int>& at) { return at; });
              },
          .fits = has_axis(x, axis) && 1 <= k && k <= n,
          .torch = "torch.topk(x[0], " + options + ")[0]"};
}

OpCase running_sum(Draw& d) {
  const Shape x = d.input(kWithAxes);
  const int axis = d.axis(x.rank());
  return {.op = [=](Inputs in) { return seppo::cumsum(in[0], axis); },
          .reference =
              [=](const auto& in) {
                return ref::along(in[0], axis,
                                  [](auto& row) { std::partial_sum(row.begin(), row.end(), row.begin()); });
              },
          .fits = has_axis(x, axis),
          .torch = "torch.cumsum(x[0], " + std::to_string(axis) + ")",
          .terms = [](std::span<const double> most) { return most[0]; }};
}

}  // namespace

std::vector<OpRow> reduction_rows() {
  return joined({sums_and_extremes(),
                 {{"prod", product, {kTall}},
                  {"var", variance, {kWide}, Range::finite},
                  {"stddev", deviation, {kWide}},
                  {"max", [](Draw& d) { return one_extreme(d, true); }, {kWide}, Range::all},
                  {"min", [](Draw& d) { return one_extreme(d, false); }, {kWide}, Range::all},
                  {"argmax", [](Draw& d) { return place_of_extreme(d, true); }, {kWide}, Range::all},
                  {"argmin", [](Draw& d) { return place_of_extreme(d, false); }, {kWide}, Range::all},
                  {"topk", several_extremes, {kTall}, Range::finite},
                  {"cumsum", running_sum, {kTall}, Range::finite}}});
}

}  // namespace test
