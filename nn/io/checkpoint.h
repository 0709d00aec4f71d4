// Checkpoints: a model's parameters in a safetensors file, with what is needed to build it again and, while it is being
// trained, what the optimiser knows of them. And weights: the same values under the names of somebody else's model.
// Tables of names to copy: examples/foreign_weights.h.
#pragma once

#include "../parameters.h"
#include "safetensors.h"

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

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

// How parameters and the tensors of a file correspond. Each function takes a parameter's name; none is needed.
struct WeightOptions {
  // The tensor that holds the parameter, or several whose rows make up its rows. Without: that of the same name.
  std::function<std::vector<std::string>(const std::string&)> rename = nullptr;
  // How many parts of a stack's rows each of its tensors has: {8, 4, 4}. Without: the same for each.
  std::function<std::vector<int>(const std::string&)> shares = nullptr;
  // Whether a matrix lies in the file as [columns, rows].
  std::function<bool(const std::string&)> transpose = nullptr;
  // Whether a parameter takes no part, and with it what it is made of. Asked for the other tensors of a file as well:
  // of those it is true for, none is missed.
  std::function<bool(const std::string&)> skip = nullptr;
  bool strict = true;  // refuse a file that does not fit, instead of loading what does
};

// Loads parameters from a file of any program: F64, F32, F16 or BF16, each rounded to the nearest real. A tensor may
// serve several parameters. Returns what does not fit, in one line each: parameters of which the file lacks a tensor,
// that have another shape or no floating-point numbers there, and tensors that belong to no parameter.
// Throws FormatError if a value, as a real, is not finite, if the file is damaged and, when strict, listing all that
// does not fit; FileError; ArgumentError for a stack that rows cannot be shared among. It then has changed nothing.
// Otherwise each parameter is loaded whole or not at all.
std::vector<std::string> load_weights(const std::filesystem::path& path, Parameters& parameters,
                                      const WeightOptions& options = {});

// Writes the file that load_weights would read with the same options. Throws as save_checkpoint does; ArgumentError for
// names that are there twice or that the format does not allow.
void save_weights(const std::filesystem::path& path, const Parameters& parameters, const WeightOptions& options = {});

}  // namespace seppo::inline SEPPO_ABI
