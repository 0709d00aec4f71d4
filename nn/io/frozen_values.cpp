// The digest of frozen values, in the order of the parameters.
#include "frozen_values.h"

#include "../../autograd/core/check.h"
#include "digest.h"

#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

std::string digest_of_frozen(const Parameters& parameters) {
  Digest digest;
  for (const Parameters::Entry& entry : parameters.entries()) {
    if (!is_frozen(entry)) continue;
    digest.add(entry.name.c_str(), entry.name.size() + 1);
    const std::span<const int> sizes = entry.shape.sizes();
    digest.add(sizes.data(), sizes.size_bytes());
    digest.add(entry.tensor.data(), entry.size() * sizeof(real));
  }
  return digest.hex();
}

void check_frozen(const SafeTensorsFile& file, const Parameters& parameters) {
  file.verify();
  check<FormatError>(file.metadata().at(kFrozenKey) == digest_of_frozen(parameters), file.name(),
                     ": holds only what was trained; the frozen values here are not those that it was trained with");
}

}  // namespace SEPPO_ABI
}  // namespace seppo
