// Region: a named part of a computation, such as one module of a model.
//
// Modules open one while they compute. Whatever happens inside is known by its name: errors end with
// "(in encoder.0.ffn.up)", and observers (observer.h) see which module an op belongs to.
//
//   Tensor operator()(const Tensor& x) const {
//     const Region here(name);                // name: a RegionName made from the Scope's path
//     return here(linear(x, weight, bias));   // tells observers that this is the module's output
//   }
#pragma once

#include "tensor.h"

#include <string>
#include <string_view>

namespace seppo::inline SEPPO_ABI {

// A name that is kept for as long as the program runs: two of the same text are one, and copies are free.
class RegionName {
 public:
  RegionName() = default;  // the empty name
  explicit RegionName(std::string_view text);
  const std::string& text() const;
  bool empty() const { return text_ == nullptr; }

 private:
  const std::string* text_ = nullptr;
};

// The region the calling thread computes in; empty outside of any.
RegionName current_region();

// Regions nest, and each has its full name: the innermost one counts. One without a name does nothing.
class Region {
 public:
  explicit Region(RegionName name);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // The region's result, to be returned: observers of the current tape are told.
  const Tensor& operator()(const Tensor& output) const;

 private:
  RegionName name_, previous_;
};

}  // namespace seppo::inline SEPPO_ABI
