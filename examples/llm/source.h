// The model that a command reads: --model, --adapter, --threads and --matmul-precision; and, if the command leaves the
// model as it is, --weights.
#pragma once

#include "llm/folder.h"

#include <seppo/autograd/core/compact_matrix.h>
#include <seppo/autograd/core/matmul_precision.h>
#include <seppo/nn/config.h>

#include <filesystem>

namespace llm {

struct Source {
  std::filesystem::path model = "runs/llm", adapter = {};
  int threads = 0;
  seppo::MatmulPrecision precision = seppo::MatmulPrecision::highest;
  seppo::WeightFormat weights = seppo::WeightFormat::full;

  void fields(seppo::ConfigVisitor& v);
  void weights_field(seppo::ConfigVisitor& v);
  // With the adapter merged. Throws examples::UsageError for an adapter that the model has already, and as
  // open_folder() does.
  Folder open() const;
};

}  // namespace llm
