// summary: collects one row for each module that reports an output, then lays out the table.
#include "summary.h"
#include "../autograd/core/observer.h"

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

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
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
  std::string text;
  const auto add = [&](const std::string& module, const std::string& shape, const std::string& count) {
    text += padded(module, width) + "  " + padded(shape, 16) + " ";
    text += std::string(count.size() < 12 ? 12 - count.size() : 0, ' ') + count + "\n";
  };
  add("module", "output", "parameters");
  for (const Row& row : rows) add(row.module, row.shape, with_commas(count_below(parameters, row.module)));
  add("total", "", with_commas(parameters.count()));
  return text;
}

}  // namespace seppo::inline SEPPO_ABI
