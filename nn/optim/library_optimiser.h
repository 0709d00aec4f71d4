// LibraryOptimiser: any of the library's optimisers, chosen by name, for configs and command lines.
//
//   LibraryOptimiser optimiser = make_optimiser(parameters, OptimizerKind::sgd, {.momentum = 0.9});
//   Trainer trainer(parameters, any_optimiser(optimiser), {.lr = 0.1});
//
// A Trainer makes the one that its config names by itself.
#pragma once

#include "adagrad.h"
#include "adam.h"
#include "any_optimiser.h"
#include "parameter_groups.h"
#include "sgd.h"

#include <span>
#include <variant>

namespace seppo {
inline namespace SEPPO_ABI {

enum class OptimizerKind {
  adam,    // or AdamW, as AdamConfig::decoupled says
  sgd,     // with momentum
  adagrad  // with the eps of AdagradConfig's default
};
inline std::span<const char* const> enum_names(OptimizerKind) {
  static constexpr const char* kNames[] = {"adam", "sgd", "adagrad"};
  return kNames;
}

// What the kinds are made with. Weight decay is that of `adam`, whichever the kind: sgd and adagrad add it to the
// gradient.
struct OptimizerSettings {
  double momentum = 0;  // of sgd
  AdamConfig adam = {};
};

using LibraryOptimiser = std::variant<Adam, Sgd, Adagrad>;

// Throws ArgumentError as the constructor of the kind does.
LibraryOptimiser make_optimiser(Parameters& parameters, OptimizerKind kind, const OptimizerSettings& settings = {},
                                const ParameterGroups& groups = {});

// A reference to the optimiser, which must outlive it and stay where it is.
AnyOptimiser any_optimiser(LibraryOptimiser& optimiser);

}  // namespace SEPPO_ABI
}  // namespace seppo
