// Scores a network without each of its heads.
#include "app/head_needs.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace examples {
namespace {

using nlohmann::json;
using seppo::Parameters;

// The weight of an output map [d_model, heads x head width] has zeros in the columns of one head, for a scope.
class WithoutHead {
 public:
  WithoutHead(Parameters& parameters, const Parameters::Entry& weight, int head, int heads)
      : parameters_(parameters),
        offset_(weight.offset),
        before_(weight.tensor.values().begin(), weight.tensor.values().end()) {
    const auto columns = static_cast<std::size_t>(weight.tensor.size(1));
    const std::size_t width = columns / static_cast<std::size_t>(heads), begin = static_cast<std::size_t>(head) * width;
    const std::span<seppo::real> values = parameters.edit().subspan(offset_, before_.size());
    for (std::size_t row = 0; row < values.size(); row += columns)
      std::ranges::fill(values.subspan(row + begin, width), seppo::real{0});
  }
  ~WithoutHead() { std::ranges::copy(before_, parameters_.edit().subspan(offset_).begin()); }
  WithoutHead(const WithoutHead&) = delete;
  WithoutHead& operator=(const WithoutHead&) = delete;

 private:
  Parameters& parameters_;
  std::size_t offset_;
  std::vector<seppo::real> before_;
};

}  // namespace

json scores_without_heads(Parameters& parameters, int heads, seppo::FunctionRef<double()> score) {
  constexpr std::string_view kOutput = ".out_proj.weight";
  json without = json::object();
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (!entry.name.ends_with(kOutput)) continue;
    json scores = json::array();
    for (int head = 0; head < heads; ++head) {
      const WithoutHead scope(parameters, entry, head, heads);
      scores.push_back(score());
    }
    without[entry.name.substr(0, entry.name.size() - kOutput.size())] = scores;
  }
  return {{"whole", score()}, {"without", without}};
}

}  // namespace examples
