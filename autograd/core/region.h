// Region: a named part of a computation, such as one module of a model. Its name appears in errors, "(in
// encoder.0.ffn.up)", and tells observers which module an op belongs to.
//
//   Tensor operator()(const Tensor& x) const {
//     const Region here(name);                // name: a RegionName made from the Scope's path
//     return here(linear(x, weight, bias));   // tells observers that this is the module's output
//   }
//
// Regions nest; each has its full name, so the innermost one counts. A region without a name does nothing.
#pragma once

#include "real.h"
#include "scoped_value.h"

#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

class Tensor;

// An interned name, kept for as long as the program runs: equal texts are one string, and copies are free.
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

class Region {
 public:
  explicit Region(RegionName name);

  // The region's result, to be returned: observers of the current tape are told.
  const Tensor& operator()(const Tensor& output) const;

 private:
  RegionName name_;
  ScopedValue<RegionName> current_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
