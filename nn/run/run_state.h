// RunState: what a checkpoint of a training run holds besides the trainer's state.
#pragma once

#include "../io/safetensors.h"
#include "best.h"

#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

struct RunState {
  std::string data;          // the digest of the data
  Best best = {};            // of the evaluations so far
  bool is_evaluated = true;  // false if the evaluation that was due at this step is missing
};

inline constexpr const char* kRunKey = "seppo.run";  // in the metadata of a checkpoint

// As the value of kRunKey, and back. Throws FormatError for a file that has no such state.
std::string text_of(const RunState& state);
RunState read_run_state(const SafeTensorsFile& file);

// On one line; invalid UTF-8 is replaced.
std::string dumped(const nlohmann::json& value);

}  // namespace SEPPO_ABI
}  // namespace seppo
