// Evaluation: how a model performs on the validation data.
//
//   const Sums sums = evaluate(validation, f);
//   return Evaluation{.val_loss = sums.mean("loss"), .measures = {{"val_exact", sums.mean("exact")}}};
#pragma once

#include "../../autograd/core/real.h"

#include <nlohmann/json.hpp>

namespace seppo {
inline namespace SEPPO_ABI {

struct Evaluation {
  double val_loss = 0;  // the mean, without label smoothing
  // By name, such as {"val_exact": 0.99}; null is for what is not defined. A run (training_run.h) writes them to its
  // metrics.jsonl, and keeps the model whose "val_X" is the highest if its config says so.
  nlohmann::json measures = {};

  // Both in one object.
  nlohmann::json summary() const {
    nlohmann::json all = measures.is_object() ? measures : nlohmann::json::object();
    all["val_loss"] = val_loss;
    return all;
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
