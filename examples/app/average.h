// The mean of several models.
#pragma once

#include <seppo/nn/io/checkpoint.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

namespace examples {

// Loads the mean of several checkpoints, such as the last of a training run; it is often better than any of them
// (Vaswani et al. 2017, 6.1). Throws what load_checkpoint throws, changing nothing; ArgumentError for no paths.
inline void load_average(std::span<const std::filesystem::path> paths, seppo::Parameters& parameters) {
  seppo::check<seppo::ArgumentError>(!paths.empty(), "checkpoint: no files to take the mean of");
  const std::span<seppo::real> values = parameters.edit();
  const std::vector<seppo::real> before(values.begin(), values.end());
  std::vector<double> sums(values.size());
  try {
    for (const auto& path : paths) {
      seppo::load_checkpoint(path, parameters);
      std::ranges::transform(values, sums, sums.begin(),
                             [](seppo::real v, double sum) { return static_cast<double>(v) + sum; });
    }
  } catch (...) {
    std::ranges::copy(before, values.begin());
    throw;
  }
  const auto count = static_cast<double>(paths.size());
  std::ranges::transform(sums, values.begin(), [&](double sum) { return static_cast<seppo::real>(sum / count); });
}

}  // namespace examples
