// load_average: sums in double precision.
#include "average.h"

#include "../io/checkpoint.h"
#include "../io/frozen_values.h"

#include <algorithm>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

void copy_frozen(std::span<const real> from, Parameters& parameters) {
  const std::span<real> values = parameters.edit();
  for (const Parameters::Entry& entry : parameters.entries())
    if (is_frozen(entry)) std::ranges::copy(from.subspan(entry.offset, entry.size()), &values[entry.offset]);
}

}  // namespace

void load_average(std::span<const std::filesystem::path> paths, Parameters& parameters) {
  check<ArgumentError>(!paths.empty(), "checkpoint: no files to take the mean of");
  const std::span<real> values = parameters.edit();
  const std::vector<real> before(values.begin(), values.end());
  std::vector<double> sums(values.size());
  try {
    for (const std::filesystem::path& path : paths) {
      load_checkpoint(path, parameters);
      for (std::size_t i = 0; i < values.size(); ++i) sums[i] += static_cast<double>(values[i]);
    }
  } catch (...) {
    std::ranges::copy(before, values.begin());
    throw;
  }
  const auto count = static_cast<double>(paths.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<real>(sums[i] / count);
  copy_frozen(before, parameters);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
