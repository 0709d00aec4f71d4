// A custom op with its backward pass and its gradient check: rotary positions (Su et al. 2021), a simpler rotary() than
// seppo's. docs/write-an-op.md walks through it. Linked to seppo::f64, because gradients are checked in double
// precision.
#include <seppo/autograd/ops.h>
#include <seppo/nn/gradient_check.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace seppo;

// Turns the pairs (x_2i, x_2i+1) of row r by the angle p_r 10000^(-2i/d): x [rows, d], one position a row.
Tensor rotary(const Tensor& x, std::span<const int> positions) {
  check(x.rank() == 2 && x.size(1) % 2 == 0, "rotary: needs x [rows, an even width], got ", x);
  check(positions.size() == x.rows(), "rotary: ", positions.size(), " positions for the ", x.rows(), " rows of x ", x);
  const auto kept = tape().keep(positions);  // until clear(): what the closure needs must live that long
  const std::size_t d = x.cols();
  // to += from, rotated; direction -1 rotates back
  const auto turn = [=](real* to, const real* from, real direction) {
    for (std::size_t r = 0; r < kept.size(); ++r)
      for (std::size_t c = 0; c < d; c += 2) {
        const real angle = direction * static_cast<real>(kept[r]) *
                           std::pow(real{10000}, -static_cast<real>(c) / static_cast<real>(d));
        const real cosine = std::cos(angle), sine = std::sin(angle);
        const real* const a = from + r * d + c;
        to[r * d + c] += cosine * a[0] - sine * a[1];
        to[r * d + c + 1] += sine * a[0] + cosine * a[1];
      }
  };
  Tensor y = zeros(x.shape());
  turn(y.data(), x.data(), 1);
  // A rotation's transpose is its inverse: the gradient is turned back.
  record("rotary", y, {x}, [=] { turn(grad_of(x), grad_of(y), -1); });
  return y;
}

int main() {
  const std::vector<int> positions{0, 1, 5, 100};
  const auto report = gradient_check({{4, 6}}, [&](std::span<const Tensor> x) { return rotary(x[0], positions); });
  std::printf("%s", report.text.c_str());

  // Why this is useful: dot products of two rows depend only on the distance between their positions.
  tape().clear();
  const Tensor q = tensor({1, 4}, {1, 2, 3, 4}), k = tensor({1, 4}, {-1, 0.5, 2, 1});
  const auto product = [&](int at_q, int at_k) {
    return sum(rotary(q, std::vector<int>{at_q}) * rotary(k, std::vector<int>{at_k})).item();
  };
  const double near = product(7, 4), far = product(107, 104);
  std::printf("distance 3 at 7 and at 107: %.12f, %.12f\n", near, far);
  return report.passed && std::abs(near - far) < 1e-10 ? 0 : 1;
}
