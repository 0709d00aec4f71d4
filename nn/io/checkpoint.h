// Checkpoints: a model's parameters in a safetensors file, with what is needed to rebuild the model and, during
// training, the state of the optimiser. And weights: values under other libraries' names (foreign_weights.h).
#pragma once

#include "../optim/optimiser.h"
#include "../parameters.h"
#include "safetensors.h"
#include "weight_type.h"

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// What a checkpoint holds of parameters that are frozen.
enum class FrozenValues {
  saved,
  digested  // their digest: the values come from a file of their own, such as that of the model that is finetuned
};

// Saves every parameter under its name, and optimiser state (nn/optim/optimiser.h). Throws NumericError, and writes
// nothing, if a value is not finite; FileError if the file cannot be written. The previous file survives any failure.
void save_checkpoint(const std::filesystem::path& path, const Parameters& parameters,
                     const std::map<std::string, std::string>& metadata, std::span<const OptimizerBlock> optimizer = {},
                     FrozenValues frozen = FrozenValues::saved);

// What loading leaves behind when it fails.
enum class AfterFailure {
  unchanged,  // nothing has changed; takes the memory of a second model
  undefined   // some values may have changed: for parameters that are then discarded, such as a new model's
};

// Loads the values of every parameter and, if asked for, of the optimiser; its tensors are passed over otherwise. The
// file must be undamaged and hold the same names and shapes, with finite values; otherwise throws FormatError listing
// every difference, and changes nothing. Of a file that holds a digest of its frozen parameters, the same ones must be
// frozen here, and have the same values.
void load_checkpoint(const SafeTensorsFile& file, Parameters& parameters,
                     std::span<const OptimizerBlock> optimizer = {},
                     AfterFailure after_failure = AfterFailure::unchanged);

// The values to write instead of a parameter's own, as many, which last until the next call; an empty span where they
// are its own.
using ValuesOf = std::function<std::span<const real>(const std::string& parameter)>;

// Row i of a parameter is row order[i] of a tensor with `of` rows. Without an order they are the same.
struct TensorRows {
  std::vector<int> order = {};
  int of = 0;
};

// How parameters and the tensors of a file correspond. Each function takes a parameter's name, and is optional.
struct WeightOptions {
  // The tensor that holds the parameter, or several tensors that are stacked, row after row. Default: the same name.
  std::function<std::vector<std::string>(const std::string&)> rename = nullptr;
  // The proportions in which the tensors of a stack share its rows: {8, 4, 4}. Default: equal shares.
  std::function<std::vector<int>(const std::string&)> shares = nullptr;
  // The rows of its tensor that the parameter has, if it is not a stack: other parameters may have the other rows.
  std::function<TensorRows(const std::string&)> rows = nullptr;
  // Whether the file stores the matrix as [columns, rows].
  std::function<bool(const std::string&)> transpose = nullptr;
  ValuesOf values = nullptr;  // to be saved
  // Whether to leave out a parameter and its tensors. Also asked for the file's other tensors: whether to ignore them.
  std::function<bool(const std::string&)> skip = nullptr;
  WeightType type = WeightType::own;  // of the file that is written
  bool strict = true;                 // refuse a file that does not fit; false loads what fits
  AfterFailure after_failure = AfterFailure::unchanged;
};

// Loads parameters from a file of any program: F64, F32, F16 or BF16, each rounded to the nearest real. A tensor may
// serve several parameters. Returns a line for everything that does not fit: parameters that lack a tensor in the file,
// or have another shape or no floating-point type there, and tensors that belong to no parameter.
// Throws FormatError if a value, as a real, is not finite, if the file is damaged or, when strict, if anything does not
// fit, listing it all; FileError; ArgumentError for rows that cannot be shared as asked. It then has changed
// nothing, unless after_failure is undefined. Otherwise each parameter is loaded completely or not at all.
std::vector<std::string> load_weights(const std::filesystem::path& path, Parameters& parameters,
                                      const WeightOptions& options = {});

// Writes the file that load_weights reads with the same options. Throws as save_checkpoint does, and NumericError for a
// value that is too large for the file's type; ArgumentError for names that occur twice or that the format does not
// allow, and for a tensor of which no parameter has some row.
void save_weights(const std::filesystem::path& path, const Parameters& parameters, const WeightOptions& options = {});

}  // namespace SEPPO_ABI
}  // namespace seppo
