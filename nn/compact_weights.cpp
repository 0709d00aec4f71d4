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

CompactMemory memory_for(const Parameters& parameters, WeightFormat format) {
  std::size_t bytes = 0;
  for (const Parameters::Entry& entry : parameters.entries())
    if (is_weight(entry)) bytes += CompactMatrix::bytes_of(format, entry.tensor.rows(), entry.tensor.cols());
  return CompactMemory(bytes);
}

}  // namespace

void compact_weights(Parameters& parameters, WeightFormat format) {
  if (format == WeightFormat::full) return;
  parameters.freeze("");
  CompactMemory memory = memory_for(parameters, format);
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (!is_weight(entry)) continue;
    try {
      make_compact(entry.tensor, format, memory);
    } catch (const NumericError& e) {
      fail<NumericError>(entry.name, ": ", e.what());
    }
  }
}

}  // namespace SEPPO_ABI
}  // namespace seppo
