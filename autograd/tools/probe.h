// Probe: calls a function with the output of every module.
//
//   Probe probe([&](const std::string& module, const Tensor& y) {
//     if (module == "encoder.0.ffn") seen = y.retain_grad();     // readable until tape().clear()
//   });
//   const Observe scope(probe);
//   backward(model.loss(batch));
//   seen.values(), seen.grad()
#pragma once

#include "../core/observer.h"

#include <functional>
#include <string>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

class Probe : public Observer {
 public:
  using Function = std::function<void(const std::string& module, const Tensor& output)>;
  explicit Probe(Function function) : function_(std::move(function)) {}
  void region_output(const std::string& region, const Tensor& output) override { function_(region, output); }

 private:
  Function function_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
