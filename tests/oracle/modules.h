// Cases that are more than one op: attention, Transformer layers and stacks, optimisers, schedules.
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

// Throws if an element differs by more than the tolerance, relative to itself or to 0.001 of the largest element.
void compare(const std::string& what, std::span<const real> actual, std::span<const real> expected, double tolerance);

// A module under test, as a function of its inputs. Throws if seppo has none of this name.
using Call = std::function<seppo::Tensor(std::span<const seppo::Tensor>)>;
Call make(const std::string& name, const seppo::Scope& s, int d_model, const nlohmann::json& args);

// Throws if seppo's module of this name differs from PyTorch's, or is unknown.
void check_module(const std::string& name, const nlohmann::json& c);

}  // namespace oracle
