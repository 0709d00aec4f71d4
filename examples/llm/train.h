// The commands that train: `llm train` from scratch, `llm finetune` from a pretrained model.
#pragma once

#include "app/command_line.h"

namespace llm {

int train(const examples::Arguments& arguments);
int finetune(const examples::Arguments& arguments);

}  // namespace llm
