// The digest by which a checkpoint refers to frozen values that it does not hold (checkpoint.h, FrozenValues).
#pragma once

#include "../parameters.h"
#include "safetensors.h"

#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

inline constexpr const char* kFrozenKey = "seppo.frozen";  // in the metadata

inline bool is_frozen(const Parameters::Entry& entry) { return !entry.trained && !entry.is_buffer; }

// Of the names, shapes and values of the parameters that are frozen (nn/io/digest.h).
std::string digest_of_frozen(const Parameters& parameters);

// Throws FormatError if the file is damaged, or was saved beside other frozen values.
void check_frozen(const SafeTensorsFile& file, const Parameters& parameters);

}  // namespace SEPPO_ABI
}  // namespace seppo
