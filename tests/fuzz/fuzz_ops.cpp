// Random programs of ops in double precision (ops_machine.h). This file is the catalogue: how an input's bytes call
// each op, which operands it accepts, and its naive reference.
#include "fuzz/ops_rows.h"
#include "fuzz/ops_shapes.h"

#include <functional>
#include <numbers>
#include <string>
#include <vector>

namespace {

using namespace fuzz;

// ---- elementwise ----------------------------------------------------------------------------------

bool broadcasts(const Value& a, const Value& b) {
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i)
    if (a.size(-i) != b.size(-i) && a.size(-i) != 1 && b.size(-i) != 1) return false;
  return true;
}

template <class T>
T larger(const T& a, const T& b, double sign) {
  const double x = real_part(a), y = real_part(b);
  if (std::isnan(x) || std::isnan(y)) return T(std::numeric_limits<double>::quiet_NaN());
  return x == y ? (a + b) / 2.0 : sign * x > sign * y ? a : b;
}

void binary(Machine& m) {
  const Value& a = m.any();
  const Value& b = m.broadcast(a.x.shape);
  const Fit fit = fits_if(broadcasts(a, b));
  const auto run = [&](const char* name, Tensor (*op)(const seppo::Operand&, const seppo::Operand&), const auto& f) {
    m.apply(
        name, {&a, &b}, {fit}, [&] { return op(a.tensor, b.tensor); },
        [&](const auto& in) { return naive::zip(in[0], in[1], f); });
  };
  const auto compare = [&](const char* name, Tensor (*op)(const seppo::Operand&, const seppo::Operand&), auto f) {
    run(name, op, [=](const auto& x, const auto& y) -> std::decay_t<decltype(x)> {
      return f(real_part(x), real_part(y)) ? 1.0 : 0.0;
    });
  };
  switch (m.bytes.below(12)) {
    case 0:
      return run("add", seppo::add, [](const auto& x, const auto& y) { return x + y; });
    case 1:
      return run("sub", seppo::sub, [](const auto& x, const auto& y) { return x - y; });
    case 2:
      return run("mul", seppo::mul, [](const auto& x, const auto& y) { return x * y; });
    case 3:
      return run("div", seppo::div, [](const auto& x, const auto& y) { return x / y; });
    case 4:
      return run("maximum", seppo::maximum, [](const auto& x, const auto& y) { return larger(x, y, 1); });
    case 5:
      return run("minimum", seppo::minimum, [](const auto& x, const auto& y) { return larger(x, y, -1); });
    case 6:
      return compare("gt", seppo::gt, std::greater<double>());
    case 7:
      return compare("ge", seppo::ge, std::greater_equal<double>());
    case 8:
      return compare("lt", seppo::lt, std::less<double>());
    case 9:
      return compare("le", seppo::le, std::less_equal<double>());
    case 10:
      return compare("eq", seppo::eq, std::equal_to<double>());
    default:
      return compare("ne", seppo::ne, std::not_equal_to<double>());
  }
}

void choose(Machine& m) {
  const Value& x = m.any();
  const Value& condition = m.broadcast(x.x.shape);
  if (m.bytes.below(2)) {
    const bool fits = broadcasts(x, condition) && naive::zip(x.x, condition.x, std::plus<>()).shape == x.x.shape;
    return m.apply(
        "masked_fill", {&x, &condition}, {fits_if(fits)},
        [&] { return seppo::masked_fill(x.tensor, condition.tensor, 0.5); },
        [](const auto& in) {
          using T = Scalar<decltype(in)>;
          return naive::zip(in[0], in[1], [](const T& e, const T& c) { return real_part(c) != 0 ? T(0.5) : e; });
        });
  }
  const Value& y = m.broadcast(x.x.shape);
  const bool fits = broadcasts(x, condition) && broadcasts(x, y) && broadcasts(condition, y);
  m.apply(
      "where", {&condition, &x, &y}, {fits_if(fits)},
      [&] { return seppo::where(condition.tensor, x.tensor, y.tensor); },
      [](const auto& in) {
        using T = Scalar<decltype(in)>;  // broadcast both branches to one shape first
        const auto a = naive::zip(in[1], naive::zip(in[0], in[2], [](const T&, const T&) { return T(0); }),
                                  [](const T& e, const T&) { return e; });
        const auto b = naive::zip(in[2], a, [](const T& e, const T&) { return e; });
        const auto c = naive::zip(in[0], a, [](const T& e, const T&) { return e; });
        Nd<T> r(a.shape);
        for (std::size_t i = 0; i < r.v.size(); ++i) r.v[i] = real_part(c.v[i]) != 0 ? a.v[i] : b.v[i];
        return r;
      });
}

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double sigmoid_of(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double normal_of(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double density_of(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double bent_of(double x) { return std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)); }

void unary(Machine& m) {
  const Value& x = m.any();
  const double number = (m.bytes.below(9) - 4) / 2.0;
  const auto run = [&](const char* name, const auto& op, const auto& f, const auto& slope, bool finite_only = false) {
    m.apply(
        name, {&x}, {Fit::fits, 0, finite_only}, [&] { return op(x.tensor); },
        [&](const auto& in) { return lifted(in[0], f, slope); });
  };
  const double root = std::sqrt(2 / std::numbers::pi);
  switch (m.bytes.below(20)) {
    case 0:
      return run(
          "neg", seppo::neg, [](double e) { return -e; }, [](double) { return -1.0; });
    case 1:
      return run(
          "scale", [&](const Tensor& t) { return seppo::scale(t, number); }, [&](double e) { return number * e; },
          [&](double) { return number; });
    case 2:
      return run(
          "abs", seppo::abs, [](double e) { return std::abs(e); }, sign_of);
    case 3:
      return run(
          "square", seppo::square, [](double e) { return e * e; }, [](double e) { return 2 * e; });
    case 4:
      return run(
          "sqrt", seppo::sqrt, [](double e) { return std::sqrt(e); }, [](double e) { return 0.5 / std::sqrt(e); });
    case 5:
      return run(
          "rsqrt", seppo::rsqrt, [](double e) { return 1 / std::sqrt(e); },
          [](double e) { return -0.5 / (e * std::sqrt(e)); });
    case 6: {
      const double high = number + m.bytes.below(4);
      return run(
          "clamp", [&](const Tensor& t) { return seppo::clamp(t, number, high); },
          [&](double e) { return std::isnan(e) ? e : std::min(std::max(e, number), high); },
          [&](double e) { return e >= number && e <= high ? 1.0 : 0.0; });
    }
    case 7:
      return run(
          "relu", seppo::relu, [](double e) { return std::isnan(e) || e > 0 ? e : 0; },
          [](double e) { return e > 0 ? 1.0 : 0.0; });
    case 8:
      return run(
          "gelu", seppo::gelu, [](double e) { return e * normal_of(e); },
          [](double e) { return normal_of(e) + e * density_of(e); }, true);
    case 9:
      return run(
          "gelu_tanh", seppo::gelu_tanh, [](double e) { return e / 2 * (1 + bent_of(e)); },
          [=](double e) {
            const double t = bent_of(e);
            return (1 + t) / 2 + e / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * e * e);
          },
          true);
    case 10:
      return run(
          "silu", seppo::silu, [](double e) { return e * sigmoid_of(e); },
          [](double e) { return sigmoid_of(e) * (1 + e * (1 - sigmoid_of(e))); }, true);
    case 11:
      return run(
          "softplus", seppo::softplus, [](double e) { return std::max(e, 0.0) + std::log1p(std::exp(-std::abs(e))); },
          sigmoid_of, true);
    case 12:
      return run(
          "tanh", seppo::tanh, [](double e) { return std::tanh(e); },
          [](double e) { return 1 - std::tanh(e) * std::tanh(e); });
    case 13:
      return run("sigmoid", seppo::sigmoid, sigmoid_of, [](double e) { return sigmoid_of(e) * sigmoid_of(-e); });
    case 14:
      return run(
          "erf", seppo::erf, [](double e) { return std::erf(e); },
          [](double e) { return 2 * std::numbers::inv_sqrtpi * std::exp(-e * e); });
    case 15:
      return run(
          "exp", seppo::exp, [](double e) { return std::exp(e); }, [](double e) { return std::exp(e); });
    case 16:
      return run(
          "log", seppo::log, [](double e) { return std::log(e); }, [](double e) { return 1 / e; });
    case 17:
      return run(
          "detach", seppo::detach, [](double e) { return e; }, [](double) { return 0.0; });
    case 18: {
      const double p = number / 2;
      return m.apply(
          "dropout", {&x}, {fits_if(p >= 0 && p <= 1), 0, true},
          [&] {
            const seppo::UseMode eval(p < 1 ? seppo::Mode::eval : seppo::Mode::train);
            return seppo::dropout(x.tensor, p);
          },
          [&](const auto& in) {
            return lifted(
                in[0], [&](double e) { return p < 1 ? e : 0; }, [&](double) { return p < 1 ? 1.0 : 0.0; });
          });
    }
    default:
      return run(
          "pow", [&](const Tensor& t) { return seppo::pow(t, number); }, [&](double e) { return std::pow(e, number); },
          [&](double e) { return number == 0 ? 0 : number * std::pow(e, number - 1); });
  }
}

// ---- products -------------------------------------------------------------------------------------

void matmul(Machine& m) {
  const Value& a = m.any();
  Ints other = a.x.shape;
  if (other.size() >= 2) std::swap(other[other.size() - 1], other[other.size() - 2]);
  if (!other.empty()) other.back() = m.bytes.below(4);
  if (other.size() == 1) other = {a.size(0), m.bytes.below(4)};
  const Value& b = m.broadcast(other);
  const auto as_matrix = [](auto x, bool left) {
    if (x.rank() == 1) x.shape.insert(left ? x.shape.begin() : x.shape.end(), 1);
    return x;
  };
  bool fits = a.rank() > 0 && b.rank() > 0;
  if (fits) {
    const Ints s = as_matrix(a.x, true).shape, t = as_matrix(b.x, false).shape;
    fits = at(s, -1) == at(t, -2);
    for (int i = 3; fits && i <= std::min(std::ssize(s), std::ssize(t)); ++i)
      fits = at(s, -i) == at(t, -i) || at(s, -i) == 1 || at(t, -i) == 1;
  }
  m.apply(
      "matmul", {&a, &b}, {fits_if(fits), largest(a) * largest(b), true},
      [&] { return seppo::matmul(a.tensor, b.tensor); },
      [&](const auto& in) {
        auto y = naive::matmul(as_matrix(in[0], true), as_matrix(in[1], false));
        if (b.rank() == 1) y.shape.pop_back();
        if (a.rank() == 1) y.shape.erase(y.shape.end() - (b.rank() == 1 ? 1 : 2));
        return y;
      });
}

void einsum(Machine& m) {
  const Value& a = m.any();
  Ints sizes = a.x.shape;
  std::string left, right, result;
  for (int i = 0; i < a.rank(); ++i) left += static_cast<char>('a' + i);
  std::string common = left;
  if (!sizes.empty() && m.bytes.below(2)) common.back() = 'z', sizes.back() = 2;
  const int turn = m.bytes.byte();
  if (!sizes.empty()) {
    std::rotate(common.begin(), common.begin() + turn % std::ssize(common), common.end());
    std::rotate(sizes.begin(), sizes.begin() + turn % std::ssize(sizes), sizes.end());
  }
  const Value& b = m.like(sizes);
  right = common;
  for (const char c : left + right)
    if (m.bytes.below(2) && result.find(c) == std::string::npos) result += c;
  std::vector<int> extents(26, -1);
  bool fits = b.rank() == std::ssize(right) && std::ssize(result) <= Shape::kMaxRank;
  const auto note = [&](const std::string& labels, const Value& x) {
    for (std::size_t i = 0; fits && i < labels.size(); ++i) {
      int& extent = extents[static_cast<std::size_t>(labels[i] - 'a')];
      fits = extent < 0 || extent == x.x.shape[i];
      extent = x.x.shape[i];
    }
  };
  note(left, a);
  note(right, b);
  const std::string equation = left + "," + right + "->" + result;
  m.apply(
      "einsum", {&a, &b}, {fits_if(fits), largest(a) * largest(b), true},
      [&] { return seppo::einsum(equation, a.tensor, b.tensor); },
      [&](const auto& in) {
        std::string all = left;
        for (const char c : right)
          if (all.find(c) == std::string::npos) all += c;
        const auto sizes_of = [&](const std::string& labels) {
          Ints s;
          for (const char c : labels) s.push_back(extents[static_cast<std::size_t>(c - 'a')]);
          return s;
        };
        Nd<Scalar<decltype(in)>> y(sizes_of(result));
        test::each_index(sizes_of(all), [&](const Ints& index) {
          const auto part = [&](const std::string& labels) {
            Ints own;
            for (const char c : labels) own.push_back(index[all.find(c)]);
            return own;
          };
          y(part(result)) += in[0](part(left)) * in[1](part(right));
        });
        return y;
      });
}

void linear(Machine& m) {
  const Value& x = m.any();
  const int out = m.bytes.below(4), kind = m.bytes.below(3);
  const Value& w = m.like({out, x.rank() ? x.size(-1) : 1});
  const Value& b = m.like({out});
  const bool fits = x.rank() > 0 && w.rank() == 2 && w.size(1) == x.size(-1) && b.rank() == 1 && b.size(0) == w.size(0);
  const auto gelu = [](const auto& t) {
    return lifted(
        t, [](double e) { return e * normal_of(e); }, [](double e) { return normal_of(e) + e * density_of(e); });
  };
  m.apply(
      "linear", {&x, &w, &b}, {fits_if(fits), largest(x) * largest(w) + largest(b), true},
      [&] { return seppo::linear(x.tensor, w.tensor, b.tensor, static_cast<seppo::Activation>(kind)); },
      [&](const auto& in) {
        using T = Scalar<decltype(in)>;
        auto rows = in[0];
        rows.shape = {static_cast<int>(x.tensor.shape().rows()), x.size(-1)};
        auto y = naive::zip(naive::matmul(rows, naive::permute(in[1], {1, 0})), in[2],
                            [](const T& p, const T& q) { return p + q; });
        y.shape = x.x.shape;
        y.shape.back() = w.size(0);
        if (kind == 1)
          y = naive::map(y, [](const T& e) {
            T r = real_part(e) > 0 ? e : T(0);
            // Near the kink rounding chooses the branch, so there is no slope to compare.
            if (std::abs(real_part(e)) < 1e-9) make(r, real_part(r), std::numeric_limits<double>::quiet_NaN());
            return r;
          });
        return kind == 2 ? gelu(y) : y;
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Machine machine(std::string_view(reinterpret_cast<const char*>(data), size));
  static constexpr void (*kOps[])(Machine&) = {binary, unary,   choose, matmul, einsum,  linear, rows,     norms,
                                               reduce, extreme, shapes, parts,  indices, losses, attention};
  for (int steps = 0; steps < 16 && !machine.bytes.rest().empty(); ++steps)
    kOps[machine.bytes.below(static_cast<int>(std::size(kOps)))](machine);
  machine.finish();
  return 0;
}
