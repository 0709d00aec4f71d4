// `llm export`: a language model as an ONNX graph, or as a GGUF file with its tokenizer.
#pragma once

#include "app/command_line.h"

namespace llm {

int export_model(const examples::Arguments& arguments);

}  // namespace llm
