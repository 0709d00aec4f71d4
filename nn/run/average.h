// load_average: the mean of several models.
#pragma once

#include "../parameters.h"

#include <filesystem>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// Loads the mean of several checkpoints, such as the last of a training run; it is often better than any of them
// (Vaswani et al. 2017, 6.1). Frozen parameters keep their values. Throws what load_checkpoint throws, changing
// nothing; ArgumentError for no paths.
void load_average(std::span<const std::filesystem::path> paths, Parameters& parameters);

}  // namespace SEPPO_ABI
}  // namespace seppo
