// The command `llm generate`.
#pragma once

#include "app/command_line.h"

namespace llm {

int generate_text(const examples::Arguments& arguments);

}  // namespace llm
