// Which parameters become compact.
#include "compact_weights.h"

#include "../autograd/core/check.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

bool is_weight(const Parameters::Entry& entry) {
  const bool has_name = entry.name == "weight" || entry.name.ends_with(".weight");
  return has_name && entry.shape.rank() == 2 && entry.size() > 0;
}

}  // namespace

void compact_weights(Parameters& parameters, WeightFormat format) {
  if (format == WeightFormat::full) return;
  parameters.freeze("");
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (!is_weight(entry)) continue;
    try {
      make_compact(entry.tensor, format);
    } catch (const NumericError& e) {
      fail<NumericError>(entry.name, ": ", e.what());
    }
  }
}

}  // namespace SEPPO_ABI
}  // namespace seppo
