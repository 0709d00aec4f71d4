// The model that a command reads: --model, --adapter, --threads and --matmul-precision.
#pragma once

#include "llm/folder.h"

#include <seppo/autograd/core/matmul_precision.h>
#include <seppo/nn/config.h>

#include <filesystem>

namespace llm {

struct Source {
  std::filesystem::path model = "runs/llm", adapter = {};
  int threads = 0;
  seppo::MatmulPrecision precision = seppo::MatmulPrecision::highest;

  void fields(seppo::ConfigVisitor& v);
  // With the adapter merged. Throws examples::UsageError for an adapter that the model has already, and as
  // open_folder() does.
  Folder open() const;
};

}  // namespace llm
