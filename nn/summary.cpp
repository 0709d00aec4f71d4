#include "../autograd/tools/probe.h"
#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace seppo::inline SEPPO_ABI {
namespace {

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
    std::string module, shape;
  };
  std::vector<Row> rows;
  Probe probe([&](const std::string& module, const Tensor& y) { rows.push_back({module, y.shape().str()}); });
  {
    const TapeMark mark;
    const UseMode eval(Mode::eval);
    const Observe scope(probe);
    forward();
  }
  std::size_t width = 6;
  for (const Row& row : rows) width = std::max(width, row.module.size());
  std::string text = fmt::format("{:<{}}  {:<16} {:>12}\n", "module", width, "output", "parameters");
  for (const Row& row : rows)
    text += fmt::format("{:<{}}  {:<16} {:>12}\n", row.module, width, row.shape,
                        with_commas(count_below(parameters, row.module)));
  return text + fmt::format("{:<{}}  {:<16} {:>12}\n", "total", width, "", with_commas(parameters.count()));
}

}  // namespace seppo::inline SEPPO_ABI
