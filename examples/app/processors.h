// How many processors this process may use.
#pragma once

#include <filesystem>

namespace examples {

// The processors that the process may run on (taskset, cpusets, Slurm), or fewer if its control group has a share of
// their time (a container's limit), rounded up. `root` is where proc and sys are found.
int available_processors(const std::filesystem::path& root = "/");

}  // namespace examples
