// A model and an op that seppo does not have: which half of a sequence has the larger sum?
// Compiled once per precision; the inline namespace keeps the two apart in one program, as seppo's own does.
#pragma once

#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace consumer {
inline namespace SEPPO_ABI {

using namespace seppo;

// y = x / (1 + |x|), elementwise.
inline Tensor softsign(const Tensor& x) {
  Tensor y = tape().create(x.shape());
  for (std::size_t i = 0; i < x.numel(); ++i) y.data()[i] = x.data()[i] / (1 + std::abs(x.data()[i]));
  record("softsign", y, {x}, [=] {
    for (std::size_t i = 0; i < x.numel(); ++i)
      grad_of(x)[i] += grad_of(y)[i] / std::pow(1 + std::abs(x.data()[i]), real{2});
  });
  return y;
}

struct Comparer {
  Comparer(const Scope& s, int inputs, int hidden) : up(s / "up", inputs, hidden), down(s / "down", hidden, 2) {}
  Tensor operator()(const Tensor& x) const { return down(softsign(up(x))); }  // [rows, inputs] -> [rows, 2]
  Linear up, down;
};

constexpr int kInputs = 6;

struct Data {
  std::vector<real> x;  // [rows, kInputs]
  std::vector<int> larger;

  Tensor inputs() const { return tensor({static_cast<int>(larger.size()), kInputs}, x); }
  Data pick(std::span<const int> rows) const {
    Data picked;
    for (const int row : rows) {
      picked.x.insert(picked.x.end(), x.begin() + row * kInputs, x.begin() + (row + 1) * kInputs);
      picked.larger.push_back(larger[static_cast<std::size_t>(row)]);
    }
    return picked;
  }
};

inline Data draw(int rows) {
  Data data;
  for (int r = 0; r < rows; ++r) {
    real halves[2] = {0, 0};
    for (int i = 0; i < kInputs; ++i) {
      data.x.push_back(std::sin(static_cast<real>(r * r + 7 * i * r + i)));
      halves[i / (kInputs / 2)] += data.x.back();
    }
    data.larger.push_back(halves[1] > halves[0]);
  }
  return data;
}

}  // namespace SEPPO_ABI
}  // namespace consumer
