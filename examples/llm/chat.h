// The command `llm chat`.
#pragma once

#include "app/command_line.h"

namespace llm {

int chat(const examples::Arguments& arguments);

}  // namespace llm
