// Second derivatives against closed forms, in both precisions: of a quadratic, of logistic regression, of an MLP (by
// Pearlmutter's rules of 1994), and of the gradient penalty of a critic.
// needs: precision: double; full: single
#include <seppo/autograd/ops.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/second_derivatives.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace seppo;

namespace {

using Vector = std::vector<double>;

constexpr bool kIsDouble = sizeof(real) == 8;
// Relative error of the whole vector.
constexpr double kSmooth = kIsDouble ? 1e-12 : 2e-5;

Vector normal(std::size_t n, std::uint64_t index, double size = 1) {
  RandomStream random(7, Purpose::test, index);
  Vector v(n);
  for (double& x : v) x = static_cast<double>(static_cast<real>(size * random.normal()));
  return v;
}

std::vector<real> reals(const Vector& v) { return {v.begin(), v.end()}; }

Init given(const Vector& v) {
  return [&](std::span<real> to, const Shape&, RandomStream&) {
    std::ranges::transform(v, to.begin(), [](double x) { return static_cast<real>(x); });
  };
}

// The parts in the layout of the flat blocks, each at the offset of its parameter.
std::vector<real> laid_out(const Parameters& parameters, const std::vector<Vector>& parts) {
  std::vector<real> flat(parameters.values().size());
  for (std::size_t p = 0; p < parts.size(); ++p)
    std::ranges::copy(reals(parts[p]), flat.begin() + static_cast<std::ptrdiff_t>(parameters.entries()[p].offset));
  return flat;
}

double dot(std::span<const real> a, std::span<const real> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

// Errors are relative to the expected vector's norm; the estimate must not be far below the true error.
void check_close(const SecondDerivative& found, std::span<const real> expected, double tolerance, const char* what) {
  BOOST_REQUIRE_EQUAL(found.value.size(), expected.size());
  double squares = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    squares += std::pow(double{found.value[i]} - double{expected[i]}, 2);
  const double error = std::sqrt(squares / dot(expected, expected));
  BOOST_TEST_MESSAGE(what << ": error " << error << ", estimated " << found.error);
  BOOST_CHECK_MESSAGE(error <= tolerance, what << ": error " << error);
  BOOST_CHECK_MESSAGE(error <= 10 * found.error + 4 * double{std::numeric_limits<real>::epsilon()},
                      what << ": error " << error << ", estimated " << found.error);
  BOOST_CHECK_MESSAGE(found.error <= 100 * tolerance, what << ": estimated " << found.error);
}

// tanh(x W^T + b) . v + c for rows of two: the parameters and their second derivatives.
struct Mlp {
  static constexpr std::size_t kRows = 6, kIn = 2, kHidden = 5;
  Vector weights = normal(kHidden * kIn, 1), bias = normal(kHidden, 2), out = normal(kHidden, 3), last = normal(1, 4);
  Vector x = normal(kRows * kIn, 5), y = normal(kRows, 6);
  Parameters parameters{1};
  Tensor w, b, v, c;

  Mlp() {
    const Scope s = parameters.root();
    w = s.parameter("w", {kHidden, kIn}, given(weights));
    b = s.parameter("b", {kHidden}, given(bias));
    v = s.parameter("v", {1, kHidden}, given(out));
    c = s.parameter("c", {1}, given(last));
  }
  Tensor operator()(const Tensor& in) const { return linear(seppo::tanh(linear(in, w, b)), v, c); }
  Tensor inputs() const { return tensor({static_cast<int>(kRows), static_cast<int>(kIn)}, reals(x)); }
  Tensor loss() const {
    const Tensor error = (*this)(inputs()) - tensor({static_cast<int>(kRows), 1}, reals(y));
    return sum(error * error) * real{0.5};
  }

  // H d for the loss, by forward-mode differentiation of backward.
  std::vector<real> product(const std::vector<Vector>& d) const {
    std::vector<Vector> h{Vector(weights.size()), Vector(kHidden), Vector(kHidden), Vector(1)};
    for (std::size_t r = 0; r < kRows; ++r) {
      Vector a(kHidden), da(kHidden);
      double error = last[0] - y[r], d_error = d[3][0];
      for (std::size_t j = 0; j < kHidden; ++j) {
        double z = bias[j], dz = d[1][j];
        for (std::size_t i = 0; i < kIn; ++i) {
          z += weights[j * kIn + i] * x[r * kIn + i];
          dz += d[0][j * kIn + i] * x[r * kIn + i];
        }
        a[j] = std::tanh(z);
        da[j] = (1 - a[j] * a[j]) * dz;
        error += out[j] * a[j];
        d_error += d[2][j] * a[j] + out[j] * da[j];
      }
      h[3][0] += d_error;
      for (std::size_t j = 0; j < kHidden; ++j) {
        const double slope = 1 - a[j] * a[j];
        h[2][j] += d_error * a[j] + error * da[j];
        const double back = (d_error * out[j] + error * d[2][j]) * slope - error * out[j] * 2 * a[j] * da[j];
        h[1][j] += back;
        for (std::size_t i = 0; i < kIn; ++i) h[0][j * kIn + i] += back * x[r * kIn + i];
      }
    }
    return laid_out(parameters, h);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_quadratic) {
  constexpr int n = 12;
  const Vector a = normal(n * n, 1), x = normal(n, 2), b = normal(n, 3), v = normal(n, 4);
  Parameters parameters(1);
  const Tensor p = parameters.root().parameter("p", {1, n}, given(x));
  const auto loss = [&] {  // (A p)^2 / 2 + b p
    const Tensor y = linear(p, tensor({n, n}, reals(a)));
    return sum(y * y) * real{0.5} + sum(p * tensor({n}, reals(b)));
  };
  Vector av(n), expected(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) av[i] += a[i * n + j] * v[j];
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) expected[j] += a[i * n + j] * av[i];
  const auto flat = laid_out(parameters, {v});
  check_close(hessian_vector_product(parameters, loss, flat), laid_out(parameters, {expected}), kSmooth, "quadratic");
}

BOOST_AUTO_TEST_CASE(logistic_regression) {
  constexpr std::size_t rows = 20, cols = 4;
  const Vector x = normal(rows * cols, 1), w = normal(cols, 2), v = normal(cols, 3);
  Vector expected(cols);
  std::vector<real> labels(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    labels[r] = r % 3 == 0;
    double z = 0, along = 0;
    for (std::size_t i = 0; i < cols; ++i) z += x[r * cols + i] * w[i], along += x[r * cols + i] * v[i];
    const double p = 1 / (1 + std::exp(-z));
    for (std::size_t i = 0; i < cols; ++i) expected[i] += p * (1 - p) * along * x[r * cols + i] / rows;
  }
  Parameters parameters(1);
  const Tensor p = parameters.root().parameter("w", {1, cols}, given(w));
  const auto loss = [&] {
    const Tensor logits = linear(tensor({rows, cols}, reals(x)), p);
    return binary_cross_entropy_with_logits(logits, tensor({rows, 1}, labels));
  };
  const auto flat = laid_out(parameters, {v});
  check_close(hessian_vector_product(parameters, loss, flat), laid_out(parameters, {expected}), kSmooth, "logistic");
}

BOOST_AUTO_TEST_CASE(an_mlp) {
  Mlp mlp;
  for (const double size : {1e-3, 1.0, 1e3}) {  // the product is linear in v
    const std::vector<Vector> d{normal(10, 11, size), normal(5, 12, size), normal(5, 13, size), normal(1, 14, size)};
    const auto flat = laid_out(mlp.parameters, d);
    int calls = 0;
    const auto loss = [&] { return ++calls, mlp.loss(); };
    check_close(hessian_vector_product(mlp.parameters, loss, flat), mlp.product(d), kSmooth, "MLP");
    BOOST_CHECK_LE(calls, 22);  // whatever the norm of v
  }
  // One column of the Hessian.
  const std::vector<Vector> d{Vector(10), {0, 0, 1, 0, 0}, Vector(5), Vector(1)};
  const auto flat = laid_out(mlp.parameters, d);
  check_close(hessian_vector_product(
                  mlp.parameters, [&] { return mlp.loss(); }, flat),
              mlp.product(d), kSmooth, "a column");
}

// u . H v = v . H u through attention, layer norms and cross-entropy.
BOOST_AUTO_TEST_CASE(a_transformer_has_a_symmetric_hessian) {
  for (const Activation activation : {Activation::gelu, Activation::relu}) {
    Parameters parameters(3);
    const Transformer model(parameters.root(),
                            {.src_vocabulary = 7,
                             .tgt_vocabulary = 6,
                             .layer = {.d_model = 8, .n_heads = 2, .d_ff = 16, .dropout = 0, .activation = activation},
                             .enc_layers = 1,
                             .dec_layers = 1});
    Ragged src, tgt;
    src.add(std::vector<int>{1, 5, 2});
    src.add(std::vector<int>{3, 4});
    tgt.add(std::vector<int>{1, 2, 3});
    tgt.add(std::vector<int>{5, 4});
    const std::vector<int> next{2, 3, 0, 4, 1};
    const auto loss = [&] { return cross_entropy(model.logits(src, tgt), next); };
    const auto u = reals(normal(parameters.values().size(), 21)), v = reals(normal(u.size(), 22));
    const SecondDerivative hu = hessian_vector_product(parameters, loss, u),
                           hv = hessian_vector_product(parameters, loss, v);
    BOOST_TEST_MESSAGE("u H v = " << dot(u, hv.value) << " and " << dot(v, hu.value) << ", estimated " << hu.error);
    const double scale = std::sqrt(dot(u, u) * dot(hv.value, hv.value)),
                 asymmetry = std::abs(dot(u, hv.value) - dot(v, hu.value)) / scale;
    BOOST_TEST_MESSAGE(asymmetry);
    BOOST_CHECK_SMALL(asymmetry, kIsDouble ? 1e-10 : 1e-4);
    BOOST_CHECK_LT(hu.error, kIsDouble ? 1e-8 : 1e-3);
  }
}

// The mean of (|d critic / d x| - 1)^2 over rows (Gulrajani et al. 2017): its gradient is that of u . slope, where
// u = d penalty / d slope is held fixed.
BOOST_AUTO_TEST_CASE(a_gradient_penalty) {
  Mlp critic;
  constexpr std::size_t n = Mlp::kRows, in = Mlp::kIn, hidden = Mlp::kHidden;
  Vector u(n * in);
  std::vector<Vector> expected{Vector(hidden * in), Vector(hidden), Vector(hidden), Vector(1)};
  for (std::size_t r = 0; r < n; ++r) {
    Vector a(hidden), g(in);
    for (std::size_t j = 0; j < hidden; ++j) {
      double z = critic.bias[j];
      for (std::size_t i = 0; i < in; ++i) z += critic.weights[j * in + i] * critic.x[r * in + i];
      a[j] = std::tanh(z);
      for (std::size_t i = 0; i < in; ++i) g[i] += critic.out[j] * (1 - a[j] * a[j]) * critic.weights[j * in + i];
    }
    double norm = 0;
    for (const double x : g) norm += x * x;
    norm = std::sqrt(norm);
    for (std::size_t i = 0; i < in; ++i) u[r * in + i] = 2 * (norm - 1) / n * g[i] / norm;
    for (std::size_t j = 0; j < hidden; ++j) {
      double along = 0;  // W u
      for (std::size_t i = 0; i < in; ++i) along += critic.weights[j * in + i] * u[r * in + i];
      const double slope = 1 - a[j] * a[j], bend = -2 * a[j] * slope * critic.out[j] * along;
      expected[2][j] += slope * along;
      expected[1][j] += bend;
      for (std::size_t i = 0; i < in; ++i)
        expected[0][j * in + i] += critic.out[j] * slope * u[r * in + i] + bend * critic.x[r * in + i];
    }
  }
  // As users compute it: slopes by backward, and u from these.
  tape().clear();
  const Tensor x = variable({static_cast<int>(n), static_cast<int>(in)}, reals(critic.x));
  tape().backward(sum(critic(x)));
  std::vector<real> direction(n * in);
  for (std::size_t r = 0; r < n; ++r) {
    const double norm = std::sqrt(dot(x.grad().subspan(r * in, in), x.grad().subspan(r * in, in)));
    for (std::size_t i = r * in; i < (r + 1) * in; ++i)
      direction[i] = static_cast<real>(2 * (norm - 1) / n / norm) * x.grad()[i];
  }
  for (std::size_t i = 0; i < u.size(); ++i) BOOST_CHECK_SMALL(double{direction[i]} - u[i], kIsDouble ? 1e-14 : 1e-6);
  critic.parameters.zero_gradients();
  const auto moved = [&](double h) {
    const Tensor step = tensor({static_cast<int>(n), static_cast<int>(in)}, direction);
    return sum(critic(critic.inputs() + step * static_cast<real>(h)));
  };
  check_close(differentiate_gradient(critic.parameters, moved), laid_out(critic.parameters, expected),
              kIsDouble ? kSmooth : 1e-4, "penalty");
}

// Values, buffers, gradients and random state are as before; frozen parameters count as constants.
BOOST_AUTO_TEST_CASE(nothing_is_left_behind) {
  Mlp mlp;
  const Tensor buffer = mlp.parameters.root().buffer("calls", {1}, init_zeros());
  mlp.parameters.freeze("w");
  std::ranges::fill(mlp.parameters.gradients(), real{3});
  tape().random.site = 5;
  const std::vector<real> before(mlp.parameters.values().begin(), mlp.parameters.values().end());
  std::vector<Vector> d{normal(10, 11), normal(5, 12), normal(5, 13), normal(1, 14)};
  const auto flat = laid_out(mlp.parameters, d);
  const auto loss = [&] {
    BOOST_CHECK_EQUAL(buffer.item(), 0);
    buffer.data()[0] += 1;
    ++tape().random.site;
    return mlp.loss();
  };
  const SecondDerivative found = hessian_vector_product(mlp.parameters, loss, flat);
  BOOST_CHECK(std::ranges::equal(mlp.parameters.values(), before));
  BOOST_CHECK(std::ranges::all_of(mlp.parameters.gradients(), [](real g) { return g == 3; }));
  BOOST_CHECK_EQUAL(tape().random.site, 5);
  BOOST_CHECK_EQUAL(tape().size(), 0);
  std::ranges::fill(d[0], 0);
  auto expected = mlp.product(d);
  std::fill_n(expected.begin(), 10, real{0});
  check_close(found, expected, kSmooth, "frozen");
}

// A kink near the point spoils only the differences of large steps.
BOOST_AUTO_TEST_CASE(kinks_near_the_point_are_left_behind) {
  Parameters parameters(1);
  const Tensor p = parameters.root().parameter("p", {3}, given({1e-4, 0.5, -1}));
  const auto loss = [&] { return sum(relu(p) * (p + real{3})); };  // p^2 + 3 p above 0
  std::vector<real> v(parameters.values().size());
  v[0] = v[1] = v[2] = 1;
  const SecondDerivative found = hessian_vector_product(parameters, loss, v);
  check_close(found, laid_out(parameters, {{2, 2, 0}}), kIsDouble ? 1e-10 : 1e-2, "kinks");
}

BOOST_AUTO_TEST_CASE(misuse) {
  Mlp mlp;
  const std::size_t size = mlp.parameters.values().size();
  const std::vector<real> shorter(3), longer(size + 1), zero(size), nans(size, std::numeric_limits<real>::quiet_NaN());
  const auto product = [&](std::span<const real> v) {
    return hessian_vector_product(
        mlp.parameters, [&] { return mlp.loss(); }, v);
  };
  for (const auto& v : {shorter, longer}) BOOST_CHECK_THROW(product(v), ShapeError);
  BOOST_CHECK_THROW(product(nans), NumericError);
  for (const real x : product(zero).value) BOOST_CHECK_EQUAL(x, 0);
  const auto nan = [&](double) { return mlp.loss() * std::numeric_limits<real>::quiet_NaN(); };
  BOOST_CHECK_THROW(differentiate_gradient(mlp.parameters, nan), NumericError);
  // An exception thrown by the loss leaves everything unchanged.
  const std::vector<real> before(mlp.parameters.values().begin(), mlp.parameters.values().end());
  std::vector<real> v(before.size(), 1);
  int calls = 0;
  const auto failing = [&]() -> Tensor {
    if (++calls == 3) throw std::runtime_error("loss");
    return mlp.loss();
  };
  BOOST_CHECK_THROW(hessian_vector_product(mlp.parameters, failing, v), std::runtime_error);
  BOOST_CHECK(std::ranges::equal(mlp.parameters.values(), before));
  BOOST_CHECK(std::ranges::all_of(mlp.parameters.gradients(), [](real g) { return g == 0; }));
}

// An exponential overflows at the first, large steps, but not at smaller ones.
BOOST_AUTO_TEST_CASE(steps_that_overflow_are_passed_over) {
  const double x = kIsDouble ? 700 : 80, scale = kIsDouble ? 1e-300 : 1e-30;
  Parameters parameters(1);
  const Tensor p = parameters.root().parameter("p", {1}, init_constant(x));
  const auto found = hessian_vector_product(
      parameters, [&] { return sum(seppo::exp(p)) * static_cast<real>(scale); }, laid_out(parameters, {{1}}));
  check_close(found, laid_out(parameters, {{scale * std::exp(x)}}), kIsDouble ? 1e-11 : 1e-4, "exponential");
}

// In single precision, differences of values are meaningless, those of gradients are not.
BOOST_AUTO_TEST_CASE(gradient_check_is_for_double_precision) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {3}, init_normal(1));
  const auto op = [](std::span<const Tensor> in) { return square(in[0]); };
  const std::function<GradientCheckReport()> checks[] = {
      [&] { return gradient_check(parameters, [&] { return sum(square(w)); }); },
      [&] { return gradient_check({{3}}, op); }, [&] { return gradient_check_at({w}, op); }};
  for (const auto& check : checks)
    if (kIsDouble)
      BOOST_CHECK(check().passed);
    else
      BOOST_CHECK_THROW(check(), StateError);
}

// The first step is proportional to the values: for x^3 at a million, rounding of the gradient does not hide 6 x v.
BOOST_AUTO_TEST_CASE(steps_are_as_large_as_the_values) {
  if (sizeof(real) != sizeof(double)) return;
  Parameters parameters(1);
  const Tensor x = parameters.root().parameter("x", {2}, init_ones());
  parameters.edit()[0] = real(1e6) / 3, parameters.edit()[1] = real(-1e7) / 7;
  std::vector<real> v(parameters.values().size());
  v[0] = 1;
  v[1] = 2;
  const auto found = hessian_vector_product(
      parameters, [&] { return sum(x * x * x); }, v);
  BOOST_CHECK_CLOSE(double{found.value[0]}, 2e6, 1e-11);
  BOOST_CHECK_CLOSE(double{found.value[1]}, -12e7 / 7, 1e-11);
}

// The gradients differ by less than their rounding: whatever comes out, the estimate covers its error.
BOOST_AUTO_TEST_CASE(differences_that_round_to_nothing) {
  const Vector p{0.3, -0.7, 1.1, 0.05}, v{1, -1, 0.5, 2};
  for (const double slope : {1e6, 1e8, 1e17}) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {4}, given(p));
    const auto product = hessian_vector_product(
        parameters, [&] { return sum(seppo::sin(w) + static_cast<real>(slope) * w); }, laid_out(parameters, {v}));
    double squares = 0, size = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      squares += std::pow(double{product.value[i]} + std::sin(p[i]) * v[i], 2);
      size += std::pow(double{product.value[i]}, 2);
    }
    const double error = std::sqrt(squares), estimated = product.error * (size > 0 ? std::sqrt(size) : 1);
    BOOST_TEST_MESSAGE("error " << error << ", estimated " << estimated);
    BOOST_CHECK_LE(error, 2 * estimated);
  }
}
