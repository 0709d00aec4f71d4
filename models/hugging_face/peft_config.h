// adapter_config.json of the Python package peft, as far as it is LoRA.
#pragma once

#include "../../autograd/core/real.h"

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

struct PeftConfig {
  std::string name = {};  // of the file that was read
  int rank = 8;
  double alpha = 8;
  bool rslora = false;
  bool is_transposed = false;                 // the adapted matrices are stored as [in, out]
  std::string base = {};                      // what the model is called; may be empty
  std::set<std::string> targets = {};         // last parts of the modules' names
  std::map<std::string, int> ranks = {};      // of modules that have another
  std::map<std::string, double> alphas = {};  // the same

  // What the product of a module's matrices is multiplied by. Throws FormatError if two alphas are of this module.
  double scale(const std::string& module, int rank) const;
  // The alpha with which a product of this rank is multiplied by `scale`.
  double alpha_for(double scale, int rank) const;
};

// Ranks and targets are left out: the matrices tell. Throws FormatError naming the file and the key, for what is no
// LoRA too; FileError.
PeftConfig read_peft_config(const std::filesystem::path& file);

nlohmann::json to_json(const PeftConfig& config);

}  // namespace SEPPO_ABI
}  // namespace seppo
