// Adapters that a finetuning has merged into hf/ are not merged a second time.
#include "llm/source.h"

#include "app/run.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/models/hugging_face/peft.h>
#include <seppo/models/lora.h>
#include <seppo/nn/compact_weights.h>

#include <fmt/format.h>

namespace llm {

namespace fs = std::filesystem;
using seppo::printable_path;

void Source::fields(seppo::ConfigVisitor& v) {
  v("model", model,
    "folder with config.json, model.safetensors and a tokenizer, or --out of a training, or a GGUF file");
  v("adapter", adapter, "folder of adapters, of this program or the package peft, to be merged into the model");
  v("threads", threads, {0, 256}, examples::kThreadsHelp);
  v("matmul_precision", precision, examples::kPrecisionHelp);
}

void Source::weights_field(seppo::ConfigVisitor& v) { v("weights", weights, examples::kWeightsHelp); }

namespace {

void merge(const fs::path& adapter, Folder& folder) {
  if (!fs::is_directory(adapter))
    throw examples::UsageError(fmt::format("--adapter: there is no folder '{}'", printable_path(adapter)));
  std::error_code error;  // there may be no such folder
  const fs::path opened = fs::canonical(folder.path);
  if (opened.filename() == "hf" && fs::equivalent(adapter, opened.parent_path() / "adapter", error))
    throw examples::UsageError(fmt::format("--adapter: '{}' is merged already into the model in '{}'",
                                           printable_path(adapter), printable_path(folder.path)));
  if (seppo::has_peft(adapter)) {
    seppo::read_peft(adapter, folder.config, *folder.parameters, folder.model).merge();
  } else {
    seppo::Adapters::read(adapter, *folder.parameters, folder.model).merge();
  }
}

}  // namespace

Folder Source::open() const {
  examples::use_threads(threads);
  seppo::set_matmul_precision(precision);
  Folder folder = open_folder(model);
  if (!adapter.empty()) merge(adapter, folder);
  compact_weights(*folder.parameters, weights);
  return folder;
}

}  // namespace llm
