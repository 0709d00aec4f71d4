// Checkpoints: a model's parameters in a safetensors file, with what is needed to build it again.
#pragma once

#include "../parameters.h"

#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace seppo::inline SEPPO_ABI {

// Saves every parameter under its name. Throws NumericError, and writes nothing, if a value is not
// finite; FileError if the file cannot be written. The previous file survives any failure.
void save_checkpoint(const std::filesystem::path& path, const Parameters& parameters,
                     const std::map<std::string, std::string>& metadata);

// Reads only the metadata, to build the model with.
std::map<std::string, std::string> read_checkpoint_metadata(const std::filesystem::path& path);

// Loads the values of every parameter. The file must hold the same names and shapes, and finite values:
// otherwise throws FormatError listing what differs, and changes nothing.
void load_checkpoint(const std::filesystem::path& path, Parameters& parameters);

// Loads the mean of several checkpoints, such as the last of a training; often better than any of them
// (Vaswani et al. 2017, 6.1). Throws as load_checkpoint does, and then changes nothing; ArgumentError for no paths.
void load_average(std::span<const std::filesystem::path> paths, Parameters& parameters);

}  // namespace seppo::inline SEPPO_ABI
