// A small regression with dropout, to be trained.
#pragma once

#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/parameters.h>
#include <seppo/nn/train/data_parallel.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace test {

using Rows = std::span<const int>;
using Values = std::vector<seppo::real>;

inline std::vector<int> rows_from(int first, int count) {
  std::vector<int> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

inline Values copy_of(std::span<const seppo::real> values) { return {values.begin(), values.end()}; }

struct Regression {
  explicit Regression(std::uint64_t seed = 1) : parameters(seed) {}

  seppo::Tensor loss(Rows rows) const {  // the sum over the rows
    Values inputs, targets;
    for (const int row : rows) {
      for (int i = 0; i < 3; ++i) inputs.push_back(static_cast<seppo::real>((row * 7 + i * 5) % 11) / 5 - 1);
      targets.push_back(static_cast<seppo::real>(row % 4) - 1);
    }
    const int n = static_cast<int>(rows.size());
    const seppo::Tensor y = down(seppo::dropout(seppo::tanh(up(seppo::tensor({n, 3}, inputs))), 0.25));
    return seppo::mse_loss(y, seppo::tensor({n, 1}, targets), seppo::Reduction::sum);
  }
  seppo::ShardLoss operator()(Rows rows) const { return {loss(rows), static_cast<double>(rows.size())}; }

  seppo::Parameters parameters;
  seppo::Linear up{parameters.root() / "up", 3, 8}, down{parameters.root() / "down", 8, 1};
};

}  // namespace test
