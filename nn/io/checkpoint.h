// Checkpoints: a model's parameters in a safetensors file, with what is needed to build it again and, while it is being
// trained, what the optimiser knows of them.
#pragma once

#include "../parameters.h"
#include "safetensors.h"

#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace seppo::inline SEPPO_ABI {

// What an optimiser remembers: a block laid out as the parameters' values, saved as "PREFIX.NAME" of each trained
// parameter. Prefixes begin with "adam.", and tensors whose names do are no parameters of the model.
struct OptimizerBlock {
  std::string prefix;
  std::span<real> values;
};

// Saves every parameter under its name. Throws NumericError, and writes nothing, if a value is not
// finite; FileError if the file cannot be written. The previous file survives any failure.
void save_checkpoint(const std::filesystem::path& path, const Parameters& parameters,
                     const std::map<std::string, std::string>& metadata,
                     std::span<const OptimizerBlock> optimizer = {});

// Loads the values of every parameter and, if asked for, of the optimiser. The file must be undamaged, and hold the
// same names and shapes, and finite values: otherwise throws FormatError listing all that differs, and changes nothing.
void load_checkpoint(const SafeTensorsFile& file, Parameters& parameters,
                     std::span<const OptimizerBlock> optimizer = {});
void load_checkpoint(const std::filesystem::path& path, Parameters& parameters);

// Loads the mean of several checkpoints, such as the last of a training; often better than any of them
// (Vaswani et al. 2017, 6.1). Throws as load_checkpoint does, and then changes nothing; ArgumentError for no paths.
void load_average(std::span<const std::filesystem::path> paths, Parameters& parameters);

}  // namespace seppo::inline SEPPO_ABI
