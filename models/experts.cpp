// Each expert computes the rows that chose it, gathered, and what it gives them is added to the sums.
#include "experts.h"

#include "../autograd/ops.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Where an expert was chosen: row r, as its choice number r * chosen + i.
struct Places {
  std::vector<int> rows, choices;
};

std::vector<Places> places_of(const std::vector<int>& chosen, std::size_t experts, int per_row) {
  std::vector<Places> places(experts);
  for (int choice = 0; choice < static_cast<int>(chosen.size()); ++choice) {
    Places& own = places[static_cast<std::size_t>(chosen[static_cast<std::size_t>(choice)])];
    own.rows.push_back(choice / per_row);
    own.choices.push_back(choice);
  }
  return places;
}

}  // namespace

Experts::Experts(const Scope& s, int d_model, int d_ff, const ExpertsOptions& options)
    : router(s / "router", d_model, options.experts, {.bias = false}), chosen(options.chosen), name(s.region()) {
  check<ArgumentError>(chosen > 0 && chosen <= options.experts, "experts: ", chosen, " of ", options.experts,
                       " cannot be chosen (", s.path(), ")");
  for (int i = 0; i < options.experts; ++i)
    experts.emplace_back(s / "experts" / i, d_model, d_ff, options.feed_forward);
}

Tensor Experts::operator()(const Tensor& x) const {
  const Region here(name);
  const Extreme best = topk(router(x), chosen);                   // [rows, chosen]
  const Tensor weights = reshape(softmax(best.values), {-1, 1});  // [rows chosen, 1]
  const std::vector<Places> places = places_of(best.indices, experts.size(), chosen);
  Tensor sum = zeros_like(x);
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const auto& [rows, choices] = places[e];
    if (rows.empty()) continue;
    const Tensor own = experts[e](index_select(x, 0, rows));  // [rows of this expert, d_model]
    sum = index_add(sum, 0, rows, own * index_select(weights, 0, choices));
  }
  return here(sum);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
