// Parameters that other libraries can be given too, without a file (tests/oracle/transformers_numbers.py).
#pragma once

#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/parameters.h>

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace test {

// 0.3 sin(n) for n = 1, 2, ..., through all tensors of their file in the order of the names that they have there.
inline void fill_with_sines(seppo::Parameters& parameters, const seppo::WeightOptions& names) {
  const std::span<seppo::real> all = parameters.edit();
  std::map<std::string, std::span<seppo::real>> tensors;
  for (const seppo::Parameters::Entry& entry : parameters.entries()) {
    const std::vector<std::string> stack = names.rename(entry.name);
    const std::size_t size = entry.size() / stack.size();
    for (std::size_t i = 0; i < stack.size(); ++i) tensors[stack[i]] = all.subspan(entry.offset + i * size, size);
  }
  double n = 0;
  for (const auto& [name, values] : tensors)
    for (seppo::real& v : values) v = static_cast<seppo::real>(0.3 * std::sin(++n));
}

}  // namespace test
