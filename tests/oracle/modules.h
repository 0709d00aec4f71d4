// The cases that are not one op: attention, Transformer layers and stacks, optimisers, schedules.
#pragma once

#include <seppo/nn/parameters.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace oracle {

using seppo::real;

struct Values {
  seppo::Shape shape;
  std::vector<real> data;
  explicit Values(const nlohmann::json& j);
};

// Throws if an element differs by more than the tolerance, relative to it or to a thousandth of the largest.
void compare(const std::string& what, std::span<const real> actual, std::span<const real> expected, double tolerance);

// A module under test: what it computes of the inputs. Throws if seppo has none of this name.
using Call = std::function<seppo::Tensor(std::span<const seppo::Tensor>)>;
Call make(const std::string& name, const seppo::Scope& s, int d_model, const nlohmann::json& args);

// Throws if seppo's module of this name differs, or is not known.
void check_module(const std::string& name, const nlohmann::json& c);

}  // namespace oracle
