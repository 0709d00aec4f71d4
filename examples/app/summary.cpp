// summary: collects one row for each module that reports an output, then lays out the table.
#include "summary.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/tools/probe.h>

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <vector>

namespace examples {
namespace {

using namespace seppo;

std::size_t count_below(const Parameters& parameters, const std::string& module) {
  std::size_t total = 0;
  for (const auto& entry : parameters.entries())
    if (entry.trained && entry.name.starts_with(module + ".")) total += entry.size();
  return total;
}

std::string with_commas(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

}  // namespace

std::string summary(const Parameters& parameters, const std::function<void()>& forward) {
  struct Row {
    std::string module, output, parameters;
  };
  std::vector<Row> rows{{"module", "output", "parameters"}};
  Probe probe([&](const std::string& module, const Tensor& y) {
    rows.push_back({module, y.shape().str(), with_commas(count_below(parameters, module))});
  });
  {
    const Inference inference;
    const Observe scope(probe);
    forward();
  }
  rows.push_back({"total", "", with_commas(parameters.count())});
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.module.size());
  std::ostringstream text;
  for (const Row& row : rows)
    text << std::left << std::setw(static_cast<int>(width)) << row.module << "  " << std::setw(16) << row.output << " "
         << std::right << std::setw(12) << row.parameters << "\n";
  return text.str();
}

}  // namespace examples
